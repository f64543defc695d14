"""The figures of the agent, from larder-metrics.timer to Prometheus."""

import json
import os
import shutil
import stat
import time
import urllib.parse
import urllib.request

from harness import RESULTS, active, check, eventually, expect, larder, properties, run, write

FILE = "/var/lib/prometheus/node-exporter/larder.prom"
SOCKET = "/run/larder/larder.sock"
RULES = "/etc/prometheus/larder-alerts.yml"


def query(expression):
    """Returns the results of an instant query, each as its labels and its value."""
    url = "http://127.0.0.1:9090/api/v1/query?" + urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(url, timeout=10) as reply:
        results = json.load(reply)["data"]["result"]
    return [(one["metric"], float(one["value"][1])) for one in results]


@check
def the_timer_is_off_until_it_is_enabled():
    found = properties("larder-metrics.timer", "ActiveState", "UnitFileState")
    expect(found == {"ActiveState": "inactive", "UnitFileState": "disabled"}, f"{found}")
    expect(not os.path.exists(FILE), f"{FILE} exists")


@check
def the_timer_writes_figures_that_promtool_accepts():
    run("systemctl", "enable", "--now", "larder-metrics.timer")
    began = time.monotonic()
    eventually(lambda: os.path.exists(FILE), f"waiting for {FILE}", 40)
    facts = os.stat(FILE)
    expect(stat.S_IMODE(facts.st_mode) == 0o644 and facts.st_uid == 0, f"mode {facts.st_mode:o}, user {facts.st_uid}")
    with open(FILE, encoding="utf-8") as file:
        text = file.read()
    expect('larder_namespace_revision{namespace="shop"}' in text, text)
    expect("larder_resident_memory_bytes 0\n" not in text and "larder_open_fds 0\n" not in text, text)
    expect('larder_disk_free_bytes{directory="images"}' in text, text)
    output = run("promtool", "check", "metrics", input=text)
    expect(not output, output)
    expect(not os.path.exists(FILE + ".new"), "the temporary file remains")
    return f"{len(text)} bytes after {time.monotonic() - began:.0f} s"


@check
def the_figures_are_written_if_the_socket_belongs_to_the_agents_user():
    # Without larder.socket, the agent creates the socket.
    shutil.chown(SOCKET, "larder", "larder")
    try:
        os.remove(FILE)
        run("systemctl", "start", "larder-metrics.service")
        expect(os.path.exists(FILE), f"{FILE} does not exist")
    finally:
        shutil.chown(SOCKET, "root", "larder")


@check
def a_stopped_agent_is_not_started_for_its_figures():
    run("systemctl", "stop", "larder.service")
    try:
        run("systemctl", "start", "larder-metrics.service", status=None)
        found = properties("larder-metrics.service", "Result", "ActiveState")
        expect(found == {"Result": "exec-condition", "ActiveState": "inactive"}, f"{found}")
        expect(not active(), "the agent was started")
    finally:
        larder("ping")
    eventually(active, "waiting for the service to become active")


@check
def the_alert_rules_pass_their_tests():
    output = run("promtool", "test", "rules", "larder-alerts-test.yml", cwd=f"{RESULTS}/observability")
    expect("SUCCESS" in output, output)
    return output.strip().splitlines()[-1].strip()


@check
def prometheus_collects_the_figures_and_loads_the_alert_rules():
    with open(f"{RESULTS}/observability/larder-alerts.yml", encoding="utf-8") as file:
        write(RULES, file.read())
    write(
        "/etc/prometheus/prometheus.yml",
        "global: {scrape_interval: 2s, evaluation_interval: 2s}\n"
        f"rule_files: [{RULES}]\n"
        "scrape_configs: [{job_name: node, static_configs: [{targets: ['127.0.0.1:9100']}]}]\n",
    )
    run("systemctl", "restart", "prometheus-node-exporter.service", "prometheus.service", timeout=90)

    def answered(expression):
        try:
            return query(expression)
        except (OSError, ValueError, KeyError):
            return []

    found = eventually(lambda: answered("larder_namespace_revision"), "waiting for the figures", 60)
    names = sorted(labels["namespace"] for labels, _ in found)
    expect("default" in names and "shop" in names, f"{found}")
    eventually(lambda: answered('node_textfile_mtime_seconds{file=~"(.*/)?larder[.]prom"}'), "waiting for the time of the file")
    with urllib.request.urlopen("http://127.0.0.1:9090/api/v1/rules", timeout=10) as reply:
        groups = json.load(reply)["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    expect(rules and all(rule["health"] != "err" for rule in rules), f"{rules}")
    families = query('count by (__name__) ({__name__=~"larder_.*"})')
    return f"{len(families)} families, {len(rules)} rules"


@check
def nothing_of_the_monitoring_keeps_running():
    run("systemctl", "disable", "--now", "larder-metrics.timer")
    run("systemctl", "stop", "prometheus.service", "prometheus-node-exporter.service")
    os.remove(RULES)
