import ArgumentParser

/// `larder doctor`
struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Look for what is wrong with the agent, and say what to do.",
        discussion: """
            Looks at the socket and who may connect, the service, the connection, the versions, your rights, the settings, \
            the clock, the disk, the sources of each namespace, the image cache, and the room for clients. It changes \
            nothing, except that its question starts an agent that waits for the first one, and works when the agent does \
            not: then it says why. Each line begins with ✓ (well), ! (works, but \
            look at it), ✗ (does not work) or · (could not be looked at), or where that cannot be shown with [ok], \
            [warning], [problem] or [skipped]; what to type next has an arrow. As root it sees more.

            The exit status is 0 if all is well, 12 if there are warnings only, 1 if something does not work, and 5 if the \
            agent cannot be reached. larder status --check has the same for the namespaces and the image cache alone.

            EXAMPLES:
              larder doctor
              sudo larder doctor                 sees the settings and the log, too
              larder doctor --settings new.json  would this file do?
              larder doctor --json | jq -r '.findings[] | select(.level == "problem") | .title'
            """)

    @Option(
        help: ArgumentHelp(
            "The settings file to check.",
            discussion: "Else the one that the agent runs with, else the usual one.", valueName: "file"))
    var settings: String?

    @Option(help: .agentSocket)
    var socket: String?

    @Option(
        help: ArgumentHelp("How long to wait for each answer of the agent: 500ms, 10s, 2m.", valueName: "time"),
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
