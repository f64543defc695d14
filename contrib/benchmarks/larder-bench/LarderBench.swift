import ArgumentParser

/// Measures Larder on this machine. It is a development tool and not part of a package.
///
/// The load generators use one thread, epoll and prepared buffers, so that the servers get nearly all of the processor
/// even on a small machine. The same code measures all servers.
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
