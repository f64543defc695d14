import ArgumentParser
import LarderClientCore
import LarderProtocol

/// The options of the verbs that change the configuration.
struct ChangeOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Change nothing (exit status 13) unless this is the current revision.", valueName: "revision"),
        completion: .revision)
    var ifRevision: Int?

    @Option(
        help: ArgumentHelp(
            "The epoch of the revision of --if-revision.", valueName: "epoch"))
    var epoch: String?

    @Option(
        help: ArgumentHelp("Why, for larder history and the log; at most 1,024 characters.", valueName: "text"))
    var reason: String?

    @Flag(help: "Print what would change, and change nothing.")
    var dryRun = false

    func validate() throws {
        if epoch != nil, ifRevision == nil {
            throw ValidationError("--epoch requires --if-revision; add it, or leave out --epoch")
        }
    }

    var condition: WireRevisionCondition { WireRevisionCondition(ifRevision, epoch: epoch) }
}

/// The options that compare the value at the path with an expected one.
struct ValueConditionOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Change nothing (exit status 13) unless this is the value at the path, as JSON or a string.",
            valueName: "value"))
    var ifValue: String?

    @Flag(help: "Change nothing (exit status 13) if there is a value at the path.")
    var ifAbsent = false

    func validate() throws {
        if ifValue != nil, ifAbsent {
            throw ValidationError("--if-value and --if-absent exclude each other; use one of them")
        }
    }

    /// - Parameter isString: whether the value of `--if-value` is a string even if its text is valid JSON
    func condition(isString: Bool) throws(Failure) -> WireValueCondition {
        if ifAbsent { return .absent }
        guard let ifValue else { return .any }
        return .equals(try ValueArgument.parse(ifValue, isString: isString))
    }
}
