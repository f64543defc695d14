import Testing

/// The golden conversations, each held with a fresh agent. They run one after the other, because each starts processes
/// of its own.
@Suite("The agent keeps to the transcripts", .serialized)
struct TranscriptTests {
    @Test("transcript", arguments: try Repository.names(in: "transcripts", extension: "jsonl"))
    func transcriptIsHeld(name: String) async throws {
        let run = try await Script.run(
            "python3", "contrib/run-transcripts.py", "--agent", Repository.agent, "Protocol/transcripts/\(name).jsonl")
        #expect(run.status == 0, "\(run.output)")
    }
}
