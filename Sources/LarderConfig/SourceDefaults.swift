/// What counts for a remote source unless its settings say otherwise.
public enum SourceDefaults {
    /// The time over which hosts that have nothing to serve spread their first requests.
    public static let firstFetchWindow = Duration.seconds(2)
}
