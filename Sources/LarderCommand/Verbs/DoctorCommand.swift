import ArgumentParser

/// `larder doctor`
struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Find problems of the agent, and show how to correct them.",
        discussion: """
            Checks the socket and its permissions, the service, the connection, the versions, your rights, the \
            settings, the clock, the disk, the sources of each namespace, the image cache, and the limits for clients. \
            If the agent does not run, doctor shows why. It changes nothing, but its connection starts an agent that \
            uses socket activation. Each line begins with ✓ (works), ! (works, but needs attention), ✗ (does not work) \
            or · (not checked), or with [ok], [warning], [problem] or [skipped] if the output cannot show these \
            symbols. An arrow marks what to do next. Some checks need root.

            The exit status is 0 without problems and warnings, 12 with warnings only, 1 if something does not work, \
            and 5 if the agent is unreachable. larder status --check checks only the namespaces, \
            the disk and the image cache.

            EXAMPLES:
              larder doctor
              sudo larder doctor                 checks the settings and shows the log, too
              larder doctor --settings new.json  checks another settings file
              larder doctor --json | jq -r '.findings[] | select(.level == "problem") | .title'
            """)

    @Option(
        help: ArgumentHelp(
            "The settings file to check.",
            discussion: "Default: the file that the agent uses, else the default file.", valueName: "file"),
        completion: .file())
    var settings: String?

    @Option(help: .agentSocket, completion: .file())
    var socket: String?

    @Option(
        help: ArgumentHelp(
            "The longest time to wait for each reply of the agent, such as 500ms, 10s or 2m. Default: 5s.",
            valueName: "time"),
        transform: TimeSpan.parse)
    var timeout = TimeSpan(.seconds(5))

    @Flag(help: "Print the findings as one line of JSON.")
    var json = false

    func run() async throws {
        let report = await Examiner.examine(socket: socket, settings: settings, timeout: timeout.duration).report
        try Output.line(
            json ? report.json : report.text(style: .standardOutput, hasSymbols: DoctorReport.hasSymbols))
        report.status.endThisProcess()
    }
}
