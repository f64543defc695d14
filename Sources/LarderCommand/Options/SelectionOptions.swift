import ArgumentParser
import LarderClient

/// Selects the part of the configuration that a program gets, and how its environment variables are named.
struct SelectionOptions: ParsableArguments {
    @Option(
        name: .customLong("path"),
        help: ArgumentHelp(
            "Pass only what is below this path, without the path's own names: search, or /search.",
            valueName: "path"))
    var text = ""

    @Option(help: ArgumentHelp("Put this before each variable's name, such as APP_.", valueName: "text"))
    var prefix = ""

    @OptionGroup var namespace: NamespaceOption

    func validate() throws {
        guard prefix.isEmpty || EnvironmentMapping.isPrefix(prefix) else {
            throw ValidationError(
                "--prefix must be letters, digits and _, the first no digit, not \"\(prefix)\"")
        }
    }

    /// The parsed path.
    var path: JSONPath {
        get throws(Failure) { try PathArgument.parse(text) }
    }

    var mapping: EnvironmentMapping { EnvironmentMapping(prefix: prefix) }

    /// Returns the value of a snapshot.
    /// - Throws: ``Failure`` if there is no value at the path.
    func value(of snapshot: ConfigSnapshot, at path: JSONPath) throws(Failure) -> JSONValue {
        guard let value = snapshot.value else {
            throw Failure(
                .notFound, "nothing is at \"\(path)\" of namespace \"\(snapshot.namespace)\"; correct --path, or set it"
            )
        }
        return value
    }
}
