import ArgumentParser
import LarderClientCore

/// Selects the part of the configuration that a program gets, and how its environment variables are named.
struct SelectionOptions: ParsableArguments {
    @Option(
        name: .customLong("path"),
        help: ArgumentHelp(
            "Use only the value at this path, such as search or /search. The names in the output are relative to it.",
            valueName: "path"), completion: .configurationPath)
    var text = ""

    @Option(help: ArgumentHelp("Begin the name of each variable with this text, such as APP_.", valueName: "text"))
    var prefix = ""

    @OptionGroup var namespace: NamespaceOption

    func validate() throws {
        guard prefix.isEmpty || EnvironmentMapping.isPrefix(prefix) else {
            throw ValidationError(
                "--prefix must consist of letters, digits and _ and must not begin with a digit, but is \"\(prefix)\"")
        }
    }

    /// The parsed path.
    var path: JSONPath {
        get throws(Failure) { try PathArgument.parse(text) }
    }

    var mapping: EnvironmentMapping { EnvironmentMapping(prefix: prefix) }

    /// Returns the value of a snapshot.
    /// - Throws: ``Failure`` if there is no value at the path.
    func value(of snapshot: LarderSnapshot, at path: JSONPath) throws(Failure) -> JSONValue {
        guard let value = snapshot.value else {
            throw Failure(
                .notFound,
                "there is no value at \"\(path)\" in namespace \"\(snapshot.namespace)\"; correct --path, or set a value"
            )
        }
        return value
    }
}
