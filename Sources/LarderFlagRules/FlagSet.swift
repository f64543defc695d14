package import LarderJSON

/// The flags of one document in flagd's format, compiled for evaluation.
///
/// A malformed flag does not affect other flags. Names are compared as UTF-8.
package struct FlagSet: Sendable {
    /// The flags, sorted by name as bytes.
    package let flags: [Flag]
    /// The metadata of the set; an object.
    package let metadata: JSONValue
    /// Why the document as a whole is malformed; nil if only flags are.
    package let problem: FlagProblem?

    private let positions: [ExactText: Int]

    /// Compiles the flags of a document.
    ///
    /// - Parameter document: `{"flags": {…}, "$evaluators": {…}, "metadata": {…}}`; all members are optional
    package init(_ document: JSONValue) {
        let names: [StaticString] = ["flags", "$evaluators", "metadata"]
        let members = names.map { document.present($0) ?? .emptyObject }
        if document.kind != .object {
            problem = FlagProblem("the flags must be an object, not \(document.kind.article)", [])
        } else if let (name, value) = zip(names, members).first(where: { $1.kind != .object }) {
            problem = FlagProblem("\(name) must be an object, not \(value.kind.article)", ["\(name)"])
        } else {
            problem = Flag.metadataProblem(members[2], ["metadata"])
        }
        metadata = problem == nil ? members[2] : .emptyObject
        var compiler = RuleCompiler(evaluators: members[1])
        let metadata = metadata
        flags = members[0].members.map { Flag($0, $1, setMetadata: metadata, &compiler) }
            .sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
        positions = Dictionary(
            flags.enumerated().map { (ExactText($1.name), $0) }, uniquingKeysWith: { first, _ in first })
    }

    /// The names of the flags, sorted as bytes.
    package var names: [String] { flags.map(\.name) }

    /// The flag called `name`; nil if it does not exist.
    package subscript(name: String) -> Flag? { positions[ExactText(name)].map { flags[$0] } }

    /// Evaluates a flag.
    ///
    /// - Parameters:
    ///   - name: the name of the flag. If the flag does not exist, the outcome is `FLAG_NOT_FOUND`.
    ///   - type: the type of the value; nil for any
    ///   - context: the facts that the rule refers to
    ///   - now: the time in seconds since 1970, for `$flagd.timestamp`
    package func evaluate(
        _ name: String, type: FlagValueType? = nil, context: FlagContext, now: Int64
    ) -> FlagOutcome {
        guard let position = positions[ExactText(name)] else { return notFound(name) }
        return flags[position].evaluate(type: type, context: context, now: now)
    }

    /// Evaluates a flag and records how. The parameters are those of ``evaluate(_:type:context:now:)``.
    package func explain(
        _ name: String, type: FlagValueType? = nil, context: FlagContext, now: Int64
    ) -> FlagTrace {
        guard let flag = self[name] else { return FlagTrace(outcome: notFound(name), rule: nil) }
        return flag.explain(type: type, context: context, now: now)
    }

    private func notFound(_ name: String) -> FlagOutcome {
        .failure(.flagNotFound, "there is no flag \"\(name)\"; list the flags to find its name", metadata: metadata)
    }
}
