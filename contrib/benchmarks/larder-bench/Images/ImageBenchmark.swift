import ArgumentParser

/// `larder-bench image`: the rate of image hits, and the hit ratio on a trace.
struct ImageBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "image", abstract: "Measure image hits, or replay a trace of image requests.",
        subcommands: [ImageRateBenchmark.self, ImageReplay.self])
}
