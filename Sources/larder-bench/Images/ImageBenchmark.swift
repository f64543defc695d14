import ArgumentParser

/// `larder-bench image`: what the image cache does in a second, in how much memory, and what it costs others.
struct ImageBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "image", abstract: "Measure the image cache, beside config.get and nginx's proxy cache.",
        subcommands: [
            ImageRateBenchmark.self, ImageDeliveryBenchmark.self, ImageFill.self, ImageStartBenchmark.self,
            ImageEvictionBenchmark.self, ImageMake.self, ImageReplay.self,
        ])
}
