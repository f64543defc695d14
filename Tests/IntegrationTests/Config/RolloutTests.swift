import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Rollouts", .timeLimit(.minutes(30)))
    struct RolloutTests {
        /// Starts an agent that publishes a document once a process named `larder` has accepted it, pushes version 1,
        /// and subscribes a canary.
        private func withAgent(
            timeoutSeconds: Int = 3600, _ body: (AgentHome, AgentProcess, LineClient) throws -> Void
        ) throws {
            let settings = """
                { namespaces: { default: { rollout: { require: ["larder"], timeoutSeconds: \(timeoutSeconds) } } } }
                """
            try AgentHome.with(settings: settings) { home in
                let agent = try home.start()
                try push(1, to: agent)
                try body(home, agent, try subscribeCanary(agent))
            }
        }

        private func push(_ number: Int, to agent: AgentProcess) throws {
            try agent.call("config.push", ["document": ["v": .int(number)], "version": .string("\(number)")])
        }

        private func subscribeCanary(_ agent: AgentProcess) throws -> LineClient {
            let canary = try agent.connect()
            try canary.call("config.subscribe", ["canary": true])
            return canary
        }

        /// Waits until a subscriber gets a document.
        /// - Returns: its revision
        @discardableResult
        private func wait(for number: Int, at subscriber: LineClient) throws -> Int {
            try require(try event(with: number, at: subscriber)["revision"]?.int, "revision")
        }

        /// Waits until a subscriber gets a document.
        private func event(with number: Int, at subscriber: LineClient) throws -> JSONValue {
            while true {
                let event = try subscriber.event()
                if event["value"]?["v"]?.int == number { return event }
            }
        }

        private func value(of agent: AgentProcess) throws -> Int? {
            try agent.call("config.get", ["v"])["value"]?.int
        }

        @Test("an accepted document is published to all")
        func accepts() throws {
            try withAgent { home, agent, canary in
                let other = try agent.connect()
                try other.call("config.subscribe")
                try push(2, to: agent)
                let candidate = try wait(for: 2, at: canary)
                #expect(try value(of: agent) == 1)
                #expect(try home.larder("status").text.contains("must be accepted by larder"))
                #expect(try home.larder("acknowledge", "\(candidate)").status == 0)
                let event = try event(with: 2, at: other)
                let published = try require(event["revision"]?.int, "revision")
                #expect(published > candidate)
                #expect(event["skipped"] == nil, "the candidate was counted")
                #expect(try wait(for: 2, at: canary) == published)
                #expect(try agent.status()["lastRollout"]?["outcome"] == "published")
            }
        }

        @Test("a rejected document is rolled back, and status, doctor, history and log have the reason")
        func rejects() throws {
            try withAgent { home, agent, canary in
                try push(2, to: agent)
                let candidate = try wait(for: 2, at: canary)
                try home.larder("acknowledge", "\(candidate)", "--refuse", "v must be odd")
                #expect(try wait(for: 1, at: canary) > candidate)
                try agent.waitForLog("was rolled back")
                let status = try agent.status()
                #expect(status["lastRollout"]?["reason"] == "v must be odd")
                #expect(status["hold"]?["rule"] == "untilNewer" && status["hold"]?["refusedVersion"] == "2")
                for verb in ["status", "doctor", "history"] {
                    let text = try home.larder(verb).text
                    #expect(text.contains("v must be odd"), "\(verb): \(text)")
                }
                // The rejected version does not come back.
                try push(2, to: agent)
                #expect(try value(of: agent) == 1)
                #expect(try agent.status()["rollout"]?.isNull == true)
            }
        }

        @Test("a document whose client dies, or stays silent, is rolled back at the timeout")
        func diesOrStaysSilent() throws {
            try withAgent(timeoutSeconds: 1) { home, agent, canary in
                let client = try home.startLarder("watch", "--canary", "v")
                try push(2, to: agent)
                client.kill()
                let candidate = try wait(for: 2, at: canary)
                #expect(try wait(for: 1, at: canary) > candidate)
                try push(3, to: agent)
                try wait(for: 3, at: canary)
                try wait(for: 1, at: canary)
                let last = try require(try agent.status()["lastRollout"], "lastRollout")
                #expect(last["version"] == "3" && last["outcome"] == "rolledBack")
                #expect(last["reason"] == "larder did not accept it within 1 s")
            }
        }

        @Test("a rollout survives kill -9 of the agent with its candidate and deadline")
        func killed() throws {
            try withAgent { home, agent, canary in
                try push(2, to: agent)
                let candidate = try wait(for: 2, at: canary)
                let deadline = try agent.status()["rollout"]?["deadline"]
                agent.kill()
                let next = try home.start()
                let nextCanary = try subscribeCanary(next)
                let nextCandidate = try wait(for: 2, at: nextCanary)
                #expect(nextCandidate > candidate)
                #expect(try value(of: next) == 1)
                #expect(try next.status()["rollout"]?["deadline"] == deadline)
                // The acceptance of a candidate from before the restart does not count.
                try home.larder("acknowledge", "\(candidate)")
                #expect(try next.status()["rollout"]?["accepted"]?.count == 0)
                try home.larder("acknowledge", "\(nextCandidate)")
                #expect(try wait(for: 2, at: nextCanary) > nextCandidate)
            }
        }

        @Test("a second document replaces the candidate")
        func twoDocuments() throws {
            try withAgent { home, agent, canary in
                try push(2, to: agent)
                let first = try wait(for: 2, at: canary)
                try push(3, to: agent)
                let second = try wait(for: 3, at: canary)
                #expect(second > first)
                try home.larder("acknowledge", "\(first)")
                #expect(try agent.status()["rollout"]?["revision"]?.int == second)
                try home.larder("acknowledge", "\(second)")
                #expect(try wait(for: 3, at: canary) > second)
                #expect(try value(of: agent) == 3)
            }
        }

        @Test("`larder rollout` approves and aborts, and fails with status 3 without a rollout")
        func byHand() throws {
            try withAgent { home, agent, canary in
                #expect(try home.larder("rollout", "approve").status == 3)
                try push(2, to: agent)
                try wait(for: 2, at: canary)
                let abort = try home.larder("rollout", "abort", "--reason", "too late")
                #expect(abort.status == 0 && abort.text.contains("rolled back"), "\(abort.log)")
                #expect(try value(of: agent) == 1)
                try push(3, to: agent)
                try wait(for: 3, at: canary)
                let approval = try JSONValue(parsing: home.larder("rollout", "approve", "--json").text)
                #expect(approval["changed"] == true)
                #expect(try value(of: agent) == 3)
            }
        }

        @Test("`larder push` reports that a rollout is in progress")
        func pushed() throws {
            try withAgent { home, _, _ in
                let pushed = try home.larder("push", "-", "--version", "2", input: #"{"v": 2}"#)
                #expect(pushed.text.hasPrefix("a rollout is in progress"))
                #expect(try home.larder("refresh").text.hasPrefix("a rollout is in progress"))
                let forced = try home.larder("push", "-", "--version", "3", "--force", input: #"{"v": 3}"#)
                #expect(forced.text.hasPrefix("revision"))
            }
        }

        @Test("a reload without the setting publishes the document of a rollout in progress")
        func settingRemoved() throws {
            try withAgent { home, agent, canary in
                try push(2, to: agent)
                let candidate = try wait(for: 2, at: canary)
                try home.write(settings: "{ namespaces: { default: {} } }")
                try agent.reload()
                #expect(try wait(for: 2, at: canary) > candidate)
                #expect(try value(of: agent) == 2)
            }
        }
    }
}
