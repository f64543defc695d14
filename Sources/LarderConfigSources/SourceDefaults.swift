/// What counts for a remote source unless its settings say otherwise.
package enum SourceDefaults {
    /// The time over which hosts that have nothing to serve spread their first requests.
    package static let firstFetchWindow = Duration.seconds(2)
}
