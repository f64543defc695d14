@_spi(LarderSchema) package import LarderJSON

/// How a schema is compiled and used.
package struct SchemaOptions: Sendable {
    /// Whether `format` is asserted.
    package enum Formats: Sendable {
        /// Only if the metaschema has the vocabulary for it; in the two standard dialects it has not.
        case byDialect
        case asserted
        case ignored
    }

    /// The limits of one validation. A value that exceeds them is invalid.
    package struct Limits: Sendable {
        /// The maximum depth of subschemas that are evaluated within each other.
        package var depth = 512
        /// The maximum number of evaluated subschemas and visited values: a fixed part, and a part for each value in
        /// the document.
        package var steps = 1_000_000
        package var stepsPerValue = 200

        package init() {}

        func steps(span: Int) -> Int {
            let (product, overflow) = span.multipliedReportingOverflow(by: stepsPerValue)
            return overflow ? .max : steps + min(product, .max - steps)
        }
    }

    package var formats = Formats.byDialect
    package var limits = Limits()

    package init() {}
}

/// A compiled JSON Schema of draft 2020-12 or draft-07.
package struct JSONSchema: Sendable {
    let compiled: CompiledSchema
    let limits: SchemaOptions.Limits

    /// Compiles a schema.
    ///
    /// - Parameters:
    ///   - document: the schema; `$schema` selects the dialect, by default draft 2020-12
    ///   - baseURI: the URI that the document was loaded from; empty if relative references to other documents are not
    ///     needed
    ///   - loading: returns the document with an absolute URI without fragment, or nil if it does not exist. It is
    ///     also called for metaschemas other than the standard ones.
    package init(
        _ document: JSONValue, baseURI: String = "", options: SchemaOptions = SchemaOptions(),
        loading: (String) -> JSONValue? = { _ in nil }
    ) throws(SchemaError) {
        let asserted: Bool? =
            switch options.formats {
            case .byDialect: nil
            case .asserted: true
            case .ignored: false
            }
        let result: Result<CompiledSchema, SchemaError> = withoutActuallyEscaping(loading) { loading in
            do throws(SchemaError) {
                let registry = SchemaRegistry(defaultDialect: .draft202012, load: loading)
                var compiler = SchemaCompiler(registry: registry, assertsFormats: asserted)
                let program = try compiler.compile(document, uri: baseURI)
                return .success(CompiledSchema(program, documents: compiler.registry.documents.map(\.uri)))
            } catch {
                return .failure(error)
            }
        }
        compiled = try result.get()
        limits = options.limits
    }

    /// Whether a value satisfies the schema. Stops at the first violation.
    package func isValid(_ value: JSONValue) -> Bool {
        value.withCursor { cursor in
            var validator = Validator(compiled, limits, span: cursor.span, tracing: false)
            return validator.run(cursor)
        }
    }

    /// Returns the violations of a value, the most specific first; empty if it satisfies the schema.
    ///
    /// Violations deep in the value come before those closer to its root. At the same depth they are in the order of the
    /// document. If no branch of an `anyOf` or `oneOf` accepts a value, the violations of the branch that fits best
    /// precede the violation of the keyword.
    ///
    /// - Parameter maxErrors: the maximum number of violations, at least 1
    package func validate(_ value: JSONValue, maxErrors: Int = 20) -> [SchemaViolation] {
        if isValid(value) { return [] }
        return explain(value, maxErrors: maxErrors)
    }

    /// Returns the violations of a document after a change, as ``validate(_:maxErrors:)`` does.
    ///
    /// Evaluates only the subschemas that the change affects, as far as the schema allows that. A value is evaluated
    /// completely where `unevaluated…`, `contains`, `uniqueItems`, `enum`, `anyOf`, `oneOf`, `not`, `if` or a dependency
    /// applies to it. With `$dynamicRef` in the schema it is the whole document.
    ///
    /// - Parameters:
    ///   - previous: the document before the change, which must satisfy the schema
    ///   - path: the only value that differs; it may be absent in either document
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
            return FindingReport(compiled, value).violations(findings, max(maxErrors, 1))
        }
    }
}
