import ArgumentParser

/// Measures Larder on this machine. For development; it is in no package.
///
/// The load generators run on one thread over epoll with buffers made beforehand, so that on a small machine the
/// servers get nearly all of the processor, and drive Redis with the same code as the agent.
@main
struct LarderBench: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "larder-bench",
        abstract: "Measure Larder on this machine, alone or in turn with Redis.",
        discussion: """
            Run the measurements over a socket against a scratch agent: they set values of their own in the namespaces \
            that they measure. contrib/bench-peers.sh starts such servers and runs everything.
            """,
        subcommands: [
            GetBenchmark.self, SetBenchmark.self, FanoutBenchmark.self, ConnectBenchmark.self, IdleBenchmark.self,
            MappedBenchmark.self, ImageBenchmark.self,
        ])
}
