/// The defaults of remote sources.
package enum SourceDefaults {
    /// The time over which hosts without a document spread their first requests.
    package static let firstFetchWindow = Duration.seconds(2)
}
