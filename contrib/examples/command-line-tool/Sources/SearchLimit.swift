import Foundation
import LarderClient

/// A tool for one value of the configuration, the number of search results.
@main
struct SearchLimit {
    static let usage = """
        usage: search-limit                  print the limit
               search-limit set N [SECONDS]  set the limit; it expires after SECONDS
               search-limit watch            print the limit now and after each change, until interrupted
        """

    static func main() async {
        do {
            try await LarderClient.withConnection { client in
                try await run(Array(CommandLine.arguments.dropFirst()), client.config)
            }
        } catch let error as LarderClientError {
            fail("search-limit: \(error.reason)" + (error.advice.map { "\n\($0)" } ?? ""), status: 1)
        } catch {
            fail("search-limit: \(error)", status: 1)
        }
    }

    static func run(_ arguments: [String], _ config: ConfigClient) async throws(LarderClientError) {
        switch arguments.first {
        case nil:
            print(try await config.value(at: "search.limit", as: Int.self, default: 10))
        case "set" where (2...3).contains(arguments.count):
            guard let limit = Int(arguments[1]) else { fail(usage, status: 2) }
            var ttl: Duration?
            if arguments.count == 3 {
                guard let seconds = Int(arguments[2]) else { fail(usage, status: 2) }
                ttl = .seconds(seconds)
            }
            let change = try await config.set(.int(limit), at: "search.limit", ttl: ttl)
            print("revision \(change.revision)")
        case "watch":
            // The loop survives restarts of the agent. It has no end of its own: Ctrl-C ends the program.
            for try await snapshot in config.snapshots(at: "search.limit").failOnRefusal() {
                do throws(LarderClientError) {
                    print("revision \(snapshot.revision): \(try snapshot.decode(default: 10))")
                } catch {
                    print("revision \(snapshot.revision): the last good limit stays: \(error)")
                }
                fflush(nil)
            }
        default:
            fail(usage, status: 2)
        }
    }

    static func fail(_ message: String, status: Int32) -> Never {
        FileHandle.standardError.write(Data("\(message)\n".utf8))
        exit(status)
    }
}
