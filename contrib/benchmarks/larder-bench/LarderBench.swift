import ArgumentParser

/// Measures Larder on this machine. It is a development tool and not part of a package.
///
/// The load generators use one thread, epoll and prepared buffers, so that the servers get nearly all of the processor
/// even on a small machine. The same code measures all servers.
@main
struct LarderBench: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "larder-bench",
        abstract: "Measure Larder on this machine, alone or alternating with other servers.",
        discussion: """
            Use an agent without data that you need, because the measurements change values in its namespaces. \
            A measurement prints a JSON object. contrib/bench-peers.sh starts suitable servers, runs all measurements \
            and prints them as tables.
            """,
        subcommands: [
            GetBenchmark.self, SetBenchmark.self, FanoutBenchmark.self, ConnectBenchmark.self, IdleBenchmark.self,
            MappedBenchmark.self, ImageBenchmark.self, SchemaBenchmark.self, StallBenchmark.self,
            CollectionBenchmark.self,
        ])
}
