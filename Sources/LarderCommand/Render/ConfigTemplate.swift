import LarderClientCore
import LarderTemplate

struct ConfigTemplate {
    /// The name of the template for errors.
    private let name: String
    private let template: Template

    /// Parses a template.
    /// - Throws: ``Failure`` with the line and column of the error.
    init(_ text: String, name: String) throws(Failure) {
        self.name = name
        do {
            template = try Template(text)
        } catch {
            throw Self.failure(error, name)
        }
    }

    /// Renders a configuration.
    /// - Throws: ``Failure`` with the names that have no value.
    func render(_ value: JSONValue) throws(Failure) -> String {
        do {
            return try template.render(value)
        } catch {
            throw Self.failure(error, name)
        }
    }

    /// The error of a template as a failure, with the name of the template and advice.
    private static func failure(_ error: TemplateError, _ name: String) -> Failure {
        let text = error.place.map { "\(name):\($0): \(error.text)" } ?? "\(name): \(error.text)"
        return switch error.code {
        case .syntax: Failure(.usage, text)
        case .function: Failure(.usage, "\(text); larder render --help lists the functions")
        case .missing:
            Failure(
                .notFound,
                "\(text); set the value, correct the template, or mark an optional name with a question mark, as in "
                    + "{{name?}}")
        }
    }
}
