import ArgumentParser
import Dispatch
import Glibc
import LarderCommand
import LarderPlatform
import LarderSystemd
import Logging
import NIOPosix
import UnixSignals

@main
enum Program {
    static func main() {
        StandardStreams.openMissing()
        // `larder` must not adopt sockets from systemd: those passed to `larder exec` belong to the program that it
        // executes.
        if Process.name == "larder" { CommandEntry.main() }
        Process.prepare()
        _ = Larderd.activation
        do {
            var command = try Larderd.parseAsRoot(nil)
            guard let agent = command as? Larderd else { return try command.run() }
            // If a thread cannot be created, Dispatch waits indefinitely, and NIO crashes the process. Therefore the
            // process checks, before the first task starts, that it can create its threads.
            let isAgent = !agent.checkSettings && !agent.showSettings && !agent.testProxies
            if isAgent { try Process.checkThreads(Agent.maxThreads) }
            Task { @MainActor in
                do { try await agent.run() } catch { Larderd.exit(withError: error) }
                exit(EXIT_SUCCESS)
            }
            dispatchMain()
        } catch let error as AgentError {
            Process.fail(error, status: 1)
        } catch {
            Larderd.exit(withError: error)
        }
    }
}

extension Larderd {
    /// The sockets from systemd. They are adopted before other code reads the environment.
    fileprivate static let activation = Result { try SocketActivation.take() }

    func run() async throws {
        if checkSettings { return await SettingsCheck(self).report() }
        if showSettings { return SettingsCheck.show(self) }
        if testProxies { return try await SettingsCheck.testProxies(self) }
        // The signal is trapped before the settings are read, so that a SIGHUP during the read causes a reload.
        let hangups = await UnixSignalsSequence(trapping: .sighup)
        let plan: AgentPlan
        do {
            plan = try AgentPlan.forStart(self)
        } catch {
            guard let sockets = try? Self.activation.get(), sockets.count == 1 else {
                Process.fail(error, status: EX_CONFIG)
            }
            plan = await settings(servingOn: sockets[0].descriptor)
        }
        Process.startLogging(level: plan.logLevel)
        if let problem = plan.settingsProblem {
            Logger(label: "larderd").error(
                """
                the settings are invalid, so the agent runs with the last ones that it saved, read at \
                \(plan.settingsReadAt): \(problem)
                """,
                metadata: ["error": "\(problem)"])
        }
        do {
            try await Agent(plan: plan, sockets: Self.activation.get(), hangups: hangups).run()
        } catch {
            Process.fail(error, status: 1)
        }
    }

    /// Waits for valid settings, and answers requests with the error until then.
    private func settings(servingOn listener: CInt) async -> AgentPlan {
        Process.startLogging(level: logLevel ?? .info)
        let thread = NIOThreadPool(numberOfThreads: 1)
        thread.start()
        let plan = await BlockingThreadPool(thread).run {
            UnavailableServer.waitForSettings(self, listener: listener, logger: Logger(label: "larderd"))
        }
        try? await thread.shutdownGracefully()
        return plan
    }
}
