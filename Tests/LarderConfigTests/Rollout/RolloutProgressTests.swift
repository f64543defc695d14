import LarderJSON
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("Progress of a rollout")
struct RolloutProgressTests {
    private static func rollout(revision: Int?, version: String = "2", since: Int = 1000) -> CurrentRollout {
        CurrentRollout(
            candidate: revision.map { ConfigSnapshot(value: .emptyObject, revision: $0, publishedAt: 0) },
            document: RollbackHold.Refused(version: UpstreamVersion(version), digest: version, origin: "push"),
            since: since)
    }

    private static func progress(_ requirement: RolloutSettings.Requirement) -> RolloutProgress {
        RolloutProgress(rollout(revision: 3), RolloutSettings(requirement))
    }

    private func acknowledgement(
        _ revision: Int, by command: String, client: Int = 1, accepted: Bool = true, reason: String? = nil
    ) -> RolloutAcknowledgement {
        RolloutAcknowledgement(
            revision: revision, isAccepted: accepted, reason: reason, peer: Peer(pid: 7, uid: 0, command: command),
            client: client)
    }

    @Test("every required name must accept the candidate; other names do not count")
    func names() {
        var progress = Self.progress(.names(["a", "b"]))
        #expect(progress.note(acknowledgement(3, by: "a")) == nil)
        #expect(progress.note(acknowledgement(3, by: "c", client: 2)) == nil)
        #expect(progress.accepted == ["a", "c"])
        let end = progress.note(acknowledgement(3, by: "b", client: 3))
        #expect(end?.outcome == .published && end?.document == progress.rollout.document)
        #expect(progress.note(acknowledgement(3, by: "b", client: 3)) == nil)
    }

    @Test("a required number counts distinct connections")
    func count() {
        var progress = Self.progress(.count(2))
        #expect(progress.note(acknowledgement(3, by: "a")) == nil)
        #expect(progress.note(acknowledgement(3, by: "a")) == nil)
        #expect(progress.note(acknowledgement(3, by: "a", client: 2))?.outcome == .published)
    }

    @Test("an acknowledgement of another revision does not count")
    func otherRevision() {
        var progress = Self.progress(.count(1))
        #expect(progress.note(acknowledgement(2, by: "a")) == nil)
        #expect(progress.note(acknowledgement(2, by: "a", accepted: false)) == nil)
        #expect(progress.accepted.isEmpty)
    }

    @Test("a rejection counts if it comes from a required name, or from any client if a number is required")
    func rejections() {
        var progress = Self.progress(.names(["a"]))
        #expect(progress.note(acknowledgement(3, by: "b", accepted: false)) == nil)
        let end = progress.note(acknowledgement(3, by: "a", accepted: false, reason: "too large"))
        #expect(end?.outcome == .rolledBack && end?.reason == "too large" && end?.peer?.command == "a")
        var counting = Self.progress(.count(2))
        counting.settings.onRefusal = .warn
        #expect(counting.note(acknowledgement(3, by: "b", accepted: false))?.outcome == .publishedAnyway)
    }

    @Test("the end because of the timeout names the processes that did not accept the candidate")
    func timeout() {
        var progress = Self.progress(.names(["a", "b"]))
        #expect(progress.deadline == 61_000)
        _ = progress.note(acknowledgement(3, by: "a"))
        let end = progress.timedOut()
        #expect(end?.outcome == .rolledBack && end?.reason == "b did not accept it within 60 s")
        #expect(progress.timedOut() == nil)
    }

    @Test("acceptances of an earlier candidate do not count for a new one, and a new document has a new deadline")
    func newCandidate() {
        var progress = Self.progress(.count(2))
        _ = progress.note(acknowledgement(3, by: "a"))
        progress.update(Self.rollout(revision: 4, version: "3", since: 5000))
        #expect(progress.accepted.isEmpty && progress.deadline == 65_000)
        #expect(progress.note(acknowledgement(3, by: "b", client: 2)) == nil)
        progress.update(Self.rollout(revision: nil, version: "3", since: 5000))
        #expect(progress.note(acknowledgement(4, by: "b", client: 2)) == nil)
    }
}
