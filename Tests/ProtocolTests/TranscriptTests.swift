import Testing

/// Runs each transcript with a new agent.
@Suite("Transcripts")
struct TranscriptTests {
    @Test("the responses of the agent match every transcript")
    func transcriptsPass() async throws {
        let names = try Repository.names(in: "transcripts", extension: "jsonl")
        let run = try await Script.run(
            "python3",
            ["contrib/run-transcripts.py", "--agent", try Repository.agent]
                + names.map { "Protocol/transcripts/\($0).jsonl" })
        #expect(run.status == 0, "\(run.output)")
    }
}
