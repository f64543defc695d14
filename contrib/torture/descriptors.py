#!/usr/bin/env python3
"""Gives an agent 64 descriptors and sends it 200 clients, again and again.

Those for whom there is no room have to be told so, in a line; those who were let in have to be served; changes have to
reach the disk all the while, which takes descriptors as well; and when the clients are gone, everything has to be as before.
"""

import resource
import sys

import larder_agent
from known_state import Origin, image_problem

CLIENTS = 200


def limited():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def crowd(agent, numbers):
    """200 clients at once: how many were served, refused in words, and lost without one."""
    served, refused, problems, clients = 0, 0, [], []
    for _ in range(CLIENTS):
        try:
            clients.append(agent.connect())
        except OSError as problem:
            # A queue that is full, of a socket that is there, is a refusal by the kernel.
            problems.append(f"cannot connect: {problem}")
    for client in clients:
        try:
            client.request("config.get")
        except larder_agent.ConnectionEnded:
            pass  # it was refused already; the line is there to be read
    for client in clients:
        try:
            message = client.message()
            if "result" in message:
                served += 1
            elif message["error"]["data"]["name"] == "limitExceeded" and message["error"]["data"]["detail"]:
                refused += 1
            else:
                problems.append(f"{message}")
        except (larder_agent.ConnectionEnded, larder_agent.Hang) as problem:
            problems.append(f"no word: {problem}")
    # Those who are in change something, while all the rest knock.
    for client in clients:
        try:
            client.call("config.set", path="n", value=numbers[-1] + 1)
            numbers.append(numbers[-1] + 1)
        except larder_agent.AgentError as error:
            if error.name != "limitExceeded":
                problems.append(f"config.set: {error}")
        except larder_agent.ConnectionEnded:
            pass
    for client in clients:
        client.close()
    return served, refused, problems


def admitted(agent):
    """A client that is served, as soon as those before it are gone: the limit may be a single connection."""
    def find():
        client = agent.connect()
        try:
            client.call("agent.ping")
            return client
        except (larder_agent.AgentError, larder_agent.ConnectionEnded):
            client.close()
    return larder_agent.eventually(find, "a client is served")


def main():
    parser = larder_agent.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="3 rounds")
    parser.add_argument("--rounds", type=int, default=0, metavar="N", help="how often the clients come (10)")
    options = parser.parse_args()
    options.rounds = options.rounds or (3 if options.quick else 10)
    origin = Origin()
    settings = {"images": {"allowNetworks": ["127.0.0.0/8"], "minimumFreeBytes": 0}}
    attempts, problems, numbers, total, told = 0, [], [0], 0, 0
    with larder_agent.Agent(options.larderd, settings=settings, before=limited) as agent:
        # What is opened when it is needed first is open: the journal, the index of images, the connection to the origin.
        with admitted(agent) as client:
            client.call("config.set", path="n", value=0)
            problem = image_problem(client, origin.url(1), 1)
            if problem:
                problems.append(problem)
            quiet = agent.descriptors()
        for _ in range(options.rounds):
            served, refused, found = crowd(agent, numbers)
            attempts += CLIENTS
            total, told = total + served, told + refused
            problems += found
            if served == 0:
                problems.append("nobody was served")
            # Recovered: somebody comes in at once, and what was acknowledged is there.
            larder_agent.eventually(lambda: agent.descriptors() <= quiet + 2, "the clients' descriptors are closed")
            with admitted(agent) as client:
                value = client.call("config.get", path="n")["value"]
                if value != numbers[-1]:
                    problems.append(f"{value} is served, and {numbers[-1]} was acknowledged")
                problem = image_problem(client, origin.url(1), 1)
                if problem:
                    problems.append(problem)
        agent.restart()
        with admitted(agent) as client:
            if client.call("config.get", path="n")["value"] != numbers[-1]:
                problems.append("what was acknowledged is not there after a start")
    if agent.crashed():
        problems.append("a crash")
    origin.close()
    for problem in problems[:10]:
        print(f"lost: {problem}", file=sys.stderr)
    larder_agent.report(f"{CLIENTS} clients of an agent with 64 descriptors", attempts, max(0, attempts - len(problems)),
                        lost=len(problems), note=f"{total} served, {told} refused in words")
    return larder_agent.finish()


if __name__ == "__main__":
    sys.exit(main())
