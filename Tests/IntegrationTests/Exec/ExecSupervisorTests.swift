import Foundation
import Testing

@testable import LarderCommand

@Suite("Supervision of the program by exec --watch")
struct ExecSupervisorTests {
    private typealias Effect = ExecSupervisor.Effect

    private func variables(_ value: Int) -> EnvironmentVariables {
        var variables = EnvironmentVariables()
        variables.append("A", "\(value)")
        return variables
    }

    private func supervisor(
        _ reaction: ExecSupervisor.Reaction = .restart, splay: Duration = .zero, fraction: Double = 0.5
    ) -> ExecSupervisor {
        ExecSupervisor(
            reaction, .init(splay: splay, interval: .seconds(10), stopTimeout: .seconds(30)), startedWith: variables(0),
            now: .seconds(100), fraction: { fraction })
    }

    /// Reports the end of the program and then of its process group. Returns the effects of the latter.
    private func end(_ supervisor: inout ExecSupervisor, _ end: ProgramEnd, at seconds: Int) -> [Effect] {
        #expect(supervisor.ended(end, now: .seconds(seconds)) == [.sendGroup(SIGTERM)])
        return supervisor.groupEmptied(now: .seconds(seconds))
    }

    @Test("changes within an interval are combined into one restart at its end, with the newest variables")
    func restart() {
        var supervisor = supervisor()
        #expect(supervisor.wakeUp == nil)
        supervisor.changed(to: variables(1), now: .seconds(101))
        supervisor.changed(to: variables(2), now: .seconds(102))
        #expect(supervisor.wakeUp == .seconds(110))
        #expect(supervisor.timePassed(now: .seconds(109)) == [])
        #expect(!supervisor.isUpToDate)
        #expect(supervisor.timePassed(now: .seconds(110)) == [.send(SIGTERM)])
        supervisor.changed(to: variables(3), now: .seconds(111))
        #expect(!supervisor.isUpToDate)
        #expect(end(&supervisor, .killed(SIGTERM), at: 112) == [.start(variables(3))])
        #expect(supervisor.isUpToDate)
        #expect(supervisor.wakeUp == nil)
        // After a quiet period, a change takes effect immediately.
        supervisor.changed(to: variables(4), now: .seconds(500))
        #expect(supervisor.wakeUp == .seconds(500))
    }

    @Test("a restart is delayed by a random fraction of the maximum splay, and consecutive changes share one delay")
    func splay() {
        var supervisor = supervisor(splay: .seconds(60))
        supervisor.changed(to: variables(1), now: .seconds(200))
        #expect(supervisor.wakeUp == .seconds(230))
        supervisor.changed(to: variables(2), now: .seconds(229))
        #expect(supervisor.wakeUp == .seconds(230))
    }

    @Test(
        "the program is not restarted if its variables stay the same, or if a change is reverted before it takes effect"
    )
    func unchanged() {
        var supervisor = supervisor()
        supervisor.changed(to: variables(0), now: .seconds(200))
        #expect(supervisor.wakeUp == nil)
        supervisor.changed(to: variables(1), now: .seconds(105))
        supervisor.changed(to: variables(0), now: .seconds(106))
        #expect(supervisor.isUpToDate)
        #expect(supervisor.wakeUp == nil)
        #expect(supervisor.timePassed(now: .seconds(200)) == [])
    }

    @Test("if a change is reverted while the program is being stopped, the program starts with the current variables")
    func revertedTooLate() {
        var supervisor = supervisor()
        supervisor.changed(to: variables(1), now: .seconds(200))
        #expect(supervisor.timePassed(now: .seconds(200)) == [.send(SIGTERM)])
        supervisor.changed(to: variables(0), now: .seconds(201))
        #expect(end(&supervisor, .exited(0), at: 202) == [.start(variables(0))])
    }

    @Test("with --signal, the signal is sent at most once per interval")
    func signal() {
        var supervisor = supervisor(.signal(SIGHUP))
        supervisor.changed(to: variables(1), now: .seconds(200))
        #expect(supervisor.timePassed(now: .seconds(200)) == [.send(SIGHUP)])
        supervisor.changed(to: variables(1), now: .seconds(201))
        #expect(supervisor.wakeUp == nil)
        supervisor.changed(to: variables(2), now: .seconds(202))
        #expect(supervisor.wakeUp == .seconds(210))
        #expect(end(&supervisor, .exited(3), at: 203) == [.end(.exited(3))])
    }

    @Test("a program that does not exit in time is killed once, and is started again after it has ended")
    func killTimeout() {
        var supervisor = supervisor()
        supervisor.changed(to: variables(1), now: .seconds(200))
        #expect(supervisor.timePassed(now: .seconds(200)) == [.send(SIGTERM)])
        #expect(supervisor.wakeUp == .seconds(230))
        #expect(supervisor.timePassed(now: .seconds(229)) == [])
        #expect(supervisor.timePassed(now: .seconds(230)) == [.reportKill, .sendGroup(SIGKILL)])
        #expect(supervisor.wakeUp == nil)
        #expect(supervisor.timePassed(now: .seconds(300)) == [])
        #expect(end(&supervisor, .killed(SIGKILL), at: 301) == [.start(variables(1))])
    }

    @Test("signals are forwarded; changes after TERM are ignored")
    func forwarding() {
        var supervisor = supervisor()
        #expect(supervisor.received(SIGUSR1, now: .seconds(101)) == [.send(SIGUSR1)])
        #expect(supervisor.received(SIGWINCH, now: .seconds(101)) == [.send(SIGWINCH)])
        supervisor.changed(to: variables(1), now: .seconds(200))
        #expect(supervisor.received(SIGTERM, now: .seconds(200)) == [.send(SIGTERM)])
        #expect(supervisor.wakeUp == nil)
        #expect(supervisor.timePassed(now: .seconds(300)) == [])
        #expect(end(&supervisor, .killed(SIGTERM), at: 301) == [.end(.killed(SIGTERM))])
    }

    @Test("INT while the program is being stopped for a restart prevents the restart")
    func endWhileStopping() {
        var supervisor = supervisor()
        supervisor.changed(to: variables(1), now: .seconds(200))
        #expect(supervisor.timePassed(now: .seconds(200)) == [.send(SIGTERM)])
        #expect(supervisor.received(SIGINT, now: .seconds(200)) == [.send(SIGINT)])
        #expect(end(&supervisor, .exited(0), at: 201) == [.end(.exited(0))])
    }

    @Test("if the program survives INT, changes take effect again after the kill timeout; QUIT is only forwarded")
    func programSurvivesInterrupt() {
        var supervisor = supervisor()
        #expect(supervisor.received(SIGINT, now: .seconds(200)) == [.send(SIGINT)])
        #expect(supervisor.wakeUp == nil)
        supervisor.changed(to: variables(1), now: .seconds(201))
        #expect(supervisor.wakeUp == .seconds(230))
        #expect(supervisor.timePassed(now: .seconds(229)) == [])
        #expect(supervisor.timePassed(now: .seconds(230)) == [.send(SIGTERM)])
        #expect(end(&supervisor, .exited(0), at: 231) == [.start(variables(1))])
        #expect(supervisor.received(SIGQUIT, now: .seconds(300)) == [.send(SIGQUIT)])
        supervisor.changed(to: variables(2), now: .seconds(301))
        #expect(supervisor.timePassed(now: .seconds(301)) == [.send(SIGTERM)])
        #expect(supervisor.received(SIGQUIT, now: .seconds(302)) == [.send(SIGQUIT)])
        #expect(end(&supervisor, .exited(0), at: 303) == [.start(variables(2))])
        // INT does not cancel an earlier TERM.
        #expect(supervisor.received(SIGTERM, now: .seconds(400)) == [.send(SIGTERM)])
        #expect(supervisor.received(SIGINT, now: .seconds(401)) == [.send(SIGINT)])
        supervisor.changed(to: variables(3), now: .seconds(402))
        #expect(supervisor.timePassed(now: .seconds(900)) == [])
    }

    @Test(
        "the rest of the group gets TERM after the program has ended, and KILL after the timeout, before the next start"
    )
    func restOfGroup() {
        var supervisor = supervisor()
        supervisor.changed(to: variables(1), now: .seconds(200))
        #expect(supervisor.timePassed(now: .seconds(200)) == [.send(SIGTERM)])
        #expect(!supervisor.awaitsEmptyGroup)
        #expect(supervisor.ended(.exited(0), now: .seconds(205)) == [.sendGroup(SIGTERM)])
        #expect(supervisor.awaitsEmptyGroup && !supervisor.isUpToDate)
        #expect(supervisor.wakeUp == .seconds(235))
        supervisor.changed(to: variables(2), now: .seconds(206))
        #expect(supervisor.timePassed(now: .seconds(234)) == [])
        #expect(supervisor.timePassed(now: .seconds(235)) == [.sendGroup(SIGKILL)])
        #expect(supervisor.timePassed(now: .seconds(235)) == [])
        // A process that cannot be killed does not prevent the start.
        #expect(supervisor.timePassed(now: .seconds(236)) == [.start(variables(2))])
        #expect(!supervisor.awaitsEmptyGroup && supervisor.isUpToDate)
    }

    @Test("TERM and INT while the rest of the group ends prevent the restart")
    func endWhileEmptying() {
        for number in [SIGTERM, SIGINT] {
            var supervisor = supervisor()
            supervisor.changed(to: variables(1), now: .seconds(200))
            #expect(supervisor.timePassed(now: .seconds(200)) == [.send(SIGTERM)])
            #expect(supervisor.ended(.exited(4), now: .seconds(201)) == [.sendGroup(SIGTERM)])
            #expect(supervisor.received(number, now: .seconds(202)) == [])
            #expect(supervisor.groupEmptied(now: .seconds(203)) == [.end(.exited(4))])
        }
    }

    @Test("a program that Ctrl-C ends while it is being stopped is not started again")
    func interruptedFromTerminal() {
        var supervisor = supervisor()
        supervisor.changed(to: variables(1), now: .seconds(200))
        #expect(supervisor.timePassed(now: .seconds(200)) == [.send(SIGTERM)])
        #expect(end(&supervisor, .killed(SIGINT), at: 201) == [.end(.killed(SIGINT))])
    }

    @Test("a change is tried again, with increasing delays, after the program could not be started with it")
    func obstacleOfTheMoment() {
        let (missing, denied) = (
            LarderCommand.Failure(.programNotFound, "missing"), LarderCommand.Failure(.programFailed, "denied")
        )
        var obstacles: [LarderCommand.Failure?] = [missing, missing, denied, nil]
        var supervisor = ExecSupervisor(
            .restart, .init(interval: .seconds(10)), startedWith: variables(0), now: .seconds(100),
            obstacle: { _ in obstacles.removeFirst() })
        supervisor.changed(to: variables(1), now: .seconds(200))
        // Only a new failure is reported.
        #expect(supervisor.timePassed(now: .seconds(200)) == [.reject(missing)])
        #expect(supervisor.wakeUp == .seconds(201) && !supervisor.isUpToDate)
        #expect(supervisor.timePassed(now: .seconds(201)) == [])
        #expect(supervisor.wakeUp == .seconds(203))
        // A snapshot that does not change the variables does not prevent the attempt.
        supervisor.changed(to: variables(1), now: .seconds(202))
        #expect(supervisor.wakeUp == .seconds(203))
        #expect(supervisor.timePassed(now: .seconds(203)) == [.reject(denied)])
        #expect(supervisor.wakeUp == .seconds(207))
        #expect(supervisor.timePassed(now: .seconds(207)) == [.send(SIGTERM)])
        #expect(end(&supervisor, .exited(0), at: 208) == [.start(variables(1))])
        #expect(supervisor.isUpToDate)
    }

    @Test("a change with which the program cannot be started is rejected before the program is stopped")
    func obstacle() {
        let failure = LarderCommand.Failure(.programFailed, "too long")
        let bad = variables(1)
        var supervisor = ExecSupervisor(
            .restart, .init(interval: .seconds(10)), startedWith: variables(0), now: .seconds(100),
            obstacle: { $0 == bad ? failure : nil })
        supervisor.changed(to: bad, now: .seconds(200))
        #expect(supervisor.timePassed(now: .seconds(200)) == [.reject(failure)])
        #expect(!supervisor.isUpToDate)
        // A change back to the variables of the program ends the attempts.
        supervisor.changed(to: variables(0), now: .seconds(200))
        #expect(supervisor.wakeUp == nil && supervisor.isUpToDate)
        supervisor.changed(to: bad, now: .seconds(210))
        #expect(supervisor.timePassed(now: .seconds(210)) == [.reject(failure)])
        // A new change does not wait for the next attempt.
        supervisor.changed(to: variables(2), now: .seconds(300))
        #expect(supervisor.wakeUp == .seconds(300))
        #expect(supervisor.timePassed(now: .seconds(300)) == [.send(SIGTERM)])
        #expect(end(&supervisor, .exited(0), at: 301) == [.start(variables(2))])
    }

    @Test("a program that does not start with new variables is started with the previous ones")
    func startFails() {
        var supervisor = supervisor()
        supervisor.changed(to: variables(1), now: .seconds(200))
        #expect(supervisor.timePassed(now: .seconds(200)) == [.send(SIGTERM)])
        #expect(end(&supervisor, .exited(0), at: 201) == [.start(variables(1))])
        #expect(supervisor.couldNotStart() == variables(0))
        supervisor.changed(to: variables(0), now: .seconds(300))
        #expect(supervisor.wakeUp == nil)
        supervisor.changed(to: variables(1), now: .seconds(400))
        #expect(supervisor.timePassed(now: .seconds(400)) == [.send(SIGTERM)])
    }
}
