@_spi(LarderSchema) package import LarderJSON

/// A compiled JSON Schema of draft 2020-12 or draft-07.
package struct JSONSchema: Sendable {
    let compiled: CompiledSchema
    package var limits = ValidationLimits()

    /// Compiles a schema.
    ///
    /// - Parameters:
    ///   - document: the schema; `$schema` selects the dialect, by default draft 2020-12
    ///   - baseURI: the URI that the document was loaded from; may be empty if the document has no relative references
    ///     to other documents
    ///   - assertsFormats: whether `format` is asserted; nil for what the dialect says. Only a metaschema that lists the
    ///     vocabulary `format-assertion` asserts formats, and those of the two standard dialects do not list it.
    ///   - loading: returns the document at a URI, or nil if there is none. The URI has no fragment, and is absolute if
    ///     `baseURI` or `$id` is. For a metaschema other than the standard ones, the URI is the value of `$schema` as
    ///     written.
    package init(
        _ document: JSONValue, baseURI: String = "", assertsFormats: Bool? = nil,
        loading: (String) -> JSONValue? = { _ in nil }
    ) throws(SchemaError) {
        let result: Result<CompiledSchema, SchemaError> = withoutActuallyEscaping(loading) { loading in
            do throws(SchemaError) {
                let registry = SchemaRegistry(defaultDialect: .draft202012, load: loading)
                var compiler = SchemaCompiler(registry: registry, assertsFormats: assertsFormats)
                let program = try compiler.compile(document, uri: baseURI)
                return .success(CompiledSchema(program, documents: compiler.registry.documents.map(\.uri)))
            } catch {
                return .failure(error)
            }
        }
        compiled = try result.get()
    }

    /// Whether a value satisfies the schema. Stops at the first violation.
    package func isValid(_ value: JSONValue) -> Bool {
        value.withCursor { cursor in
            var validator = Validator(compiled, limits, span: cursor.span, tracing: false)
            return validator.run(cursor)
        }
    }

    /// Returns the violations of a value, the most specific first; empty if the value satisfies the schema.
    ///
    /// Violations deep in the value come before those closer to its root. Violations at the same depth are in the order
    /// of the document. If no branch of an `anyOf` or `oneOf` accepts a value, the violations of the branch that fits
    /// best precede the violation of the keyword. They are left out if no branch permits the type or the value itself.
    ///
    /// - Parameter maxErrors: the maximum number of violations, at least 1
    package func validate(_ value: JSONValue, maxErrors: Int = 20) -> [SchemaViolation] {
        if isValid(value) { return [] }
        return explain(value, maxErrors: maxErrors)
    }

    /// Returns the violations of a document after a change, as ``validate(_:maxErrors:)`` does.
    ///
    /// Evaluates only the subschemas that the change affects, as far as the schema allows that. A value is evaluated
    /// completely if `unevaluated…`, `contains`, `uniqueItems`, `enum`, `const`, `anyOf`, `oneOf`, `not`, `if` or a
    /// dependency applies to it. If the schema contains `$dynamicRef`, the whole document is evaluated.
    ///
    /// - Parameters:
    ///   - previous: the document before the change, which must satisfy the schema
    ///   - path: the path of the only value that differs between the documents; either document may lack this value
    package func validate(
        _ value: JSONValue, previous: JSONValue, changedAt path: JSONPath, maxErrors: Int = 20
    ) -> [SchemaViolation] {
        let isValid = value.withCursor { cursor in
            previous.withCursor { previousCursor in
                var validator = Validator(compiled, limits, span: cursor.span, tracing: false)
                return validator.run(cursor, ValueChange(from: previousCursor, to: cursor, at: path))
            }
        }
        return isValid ? [] : explain(value, maxErrors: maxErrors)
    }

    func explain(_ value: JSONValue, maxErrors: Int) -> [SchemaViolation] {
        value.withCursor { cursor in
            var validator = Validator(compiled, limits, span: cursor.span, tracing: true)
            _ = validator.run(cursor)
            var findings = validator.findings
            if let stopped = validator.stopped { findings.append(stopped) }
            return FindingReport(schema: compiled, root: value).violations(findings, max(maxErrors, 1))
        }
    }
}
