public import LarderProtocol

/// The lists of downloads in progress as a stream: the current list, and then each list that differs from the one
/// before.
///
/// ```swift
/// for try await downloads in client.images.downloads {
///     print("\(downloads.count) downloads")
/// }
/// ```
///
/// An iteration requests the list once per second, on the clock of the client. It continues after a restart of the
/// agent: while the agent is unreachable, it tries to connect after the delays of
/// ``LarderClient/Configuration/backoff``. It ends when the task is cancelled.
public struct ImageDownloadLists: AsyncSequence, Sendable {
    /// The downloads in progress, in ascending order of ID.
    public typealias Element = [ImageDownloads.Download]
    /// The error that ends the stream.
    public typealias Failure = LarderClientError

    let client: LarderClient

    /// Starts an iteration. It requests the first list when the first element is requested.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(client: client) }

    /// An iteration over the lists.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private static let interval = Duration.seconds(1)

        let client: LarderClient
        private var newest: Element?
        private var failures = 0
        private var pause = Duration.zero

        init(client: LarderClient) { self.client = client }

        /// Waits for the next list. Returns nil once the task is cancelled.
        /// - Throws: an error that a retry cannot resolve, such as `remote` with `unavailable` without an image cache.
        public mutating func next(
            isolation actor: isolated (any Actor)? = #isolation
        ) async throws(LarderClientError) -> Element? {
            while !Task.isCancelled {
                do {
                    if pause > .zero { try await client.configuration.clock.sleep(for: pause) }
                } catch {
                    return nil
                }
                do throws(LarderClientError) {
                    let list = try await client.call(ImageDownloads.self, NoParameters()).downloads
                    failures = 0
                    pause = Self.interval
                    if list == newest { continue }
                    newest = list
                    return list
                } catch {
                    if Task.isCancelled { return nil }
                    guard error.isRetryable else { throw error }
                    pause = client.configuration.backoff.delay(beforeAttempt: failures)
                    failures += 1
                }
            }
            return nil
        }
    }
}
