import Testing

/// The golden conversations, each held with a fresh agent.
@Suite("The agent keeps to the transcripts")
struct TranscriptTests {
    @Test("all transcripts pass")
    func transcriptsPass() async throws {
        let names = try Repository.names(in: "transcripts", extension: "jsonl")
        let run = try await Script.run(
            "python3",
            ["contrib/run-transcripts.py", "--agent", try Repository.agent]
                + names.map { "Protocol/transcripts/\($0).jsonl" })
        #expect(run.status == 0, "\(run.output)")
    }
}
