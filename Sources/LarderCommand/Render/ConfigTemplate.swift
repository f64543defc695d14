import LarderClient
import LarderTemplate

/// A template for `larder render`.
struct ConfigTemplate {
    /// What errors call it.
    private let name: String
    private let template: Template

    /// Reads a template.
    /// - Throws: ``Failure`` with the line and column of what is wrong.
    init(_ text: String, name: String) throws(Failure) {
        self.name = name
        do {
            template = try Template(text)
        } catch {
            throw Self.failure(error, name)
        }
    }

    /// Renders a configuration.
    /// - Throws: ``Failure`` that names what the template asks for and is not there.
    func render(_ value: JSONValue) throws(Failure) -> String {
        do {
            return try template.render(value)
        } catch {
            throw Self.failure(error, name)
        }
    }

    /// An error with the template's name and what to do next.
    private static func failure(_ error: TemplateError, _ name: String) -> Failure {
        let text = error.place.map { "\(name):\($0): \(error.text)" } ?? "\(name): \(error.text)"
        return switch error.code {
        case .syntax: Failure(.usage, text)
        case .function: Failure(.usage, "\(text); larder render --help lists the functions")
        case .missing:
            Failure(
                .notFound,
                "\(text); set it, correct the template, or mark what may be missing with a question mark, as in "
                    + "{{name?}}")
        }
    }
}
