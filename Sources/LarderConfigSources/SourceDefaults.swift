/// The defaults of remote sources.
package enum SourceDefaults {
    /// The time over which hosts that have nothing to serve spread their first requests.
    package static let firstFetchWindow = Duration.seconds(2)
}
