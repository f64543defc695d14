import Foundation
import LarderFlagRules
import LarderJSON

/// The evaluator's part of flagd's testbed (github.com/open-feature/flagd-testbed), in Gherkin. Its tests run only if
/// `LARDER_SUITES` names a folder that contains the suite in the subfolder `flagd`.
enum FlagSuite {
    static let folder = suiteFolder("flagd")

    /// A subfolder of the folder that `LARDER_SUITES` names; nil if it does not exist.
    static func suiteFolder(_ name: String) -> URL? {
        guard let suites = ProcessInfo.processInfo.environment["LARDER_SUITES"], !suites.isEmpty else { return nil }
        let folder = URL(filePath: suites).appending(path: name)
        return FileManager.default.fileExists(atPath: folder.path) ? folder : nil
    }

    /// A scenario, or a row of the examples of an outline.
    struct Scenario: CustomStringConvertible {
        var feature: String
        var name: String
        /// The tags of the scenario and of its examples.
        var tags: Set<String>
        var steps: [Step]
        /// The values of the example.
        var values: [String] = []

        var description: String { ([feature, name] + values).joined(separator: " | ") }
    }

    struct Step {
        var text: String
        /// The rows of the table below the step.
        var rows: [[String]] = []
    }

    static func scenarios() throws -> [Scenario] {
        guard let folder = folder?.appending(path: "evaluator/gherkin") else { return [] }
        return try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted().flatMap { file in
            var parser = Parser(feature: String(file.prefix { $0 != "." }))
            for line in try String(contentsOf: folder.appending(path: file), encoding: .utf8).split(separator: "\n") {
                parser.read(line.trimmingCharacters(in: .whitespaces))
            }
            return parser.finish()
        }
    }

    /// Reads one file line by line.
    private struct Parser {
        private enum Section { case background, scenario, examples }

        let feature: String
        private var background: [Step] = []
        private var scenario: Scenario?
        private var isOutline = false
        private var section = Section.background
        private var tags: Set<String> = []
        /// The tags of the current examples, and the names of their columns.
        private var exampleTags: Set<String> = []
        private var columns: [String]?
        private var finished: [Scenario] = []

        init(feature: String) { self.feature = feature }

        mutating func read(_ line: String) {
            if line.isEmpty || line.hasPrefix("#") || line.hasPrefix("Feature:") {
                if line.hasPrefix("Feature:") { tags = [] }
            } else if line.hasPrefix("@") {
                tags.formUnion(line.split(separator: " ").map(String.init))
            } else if line.hasPrefix("Background:") {
                section = .background
            } else if line.hasPrefix("Scenario") {
                endScenario()
                isOutline = line.hasPrefix("Scenario Outline:")
                scenario = Scenario(
                    feature: feature, name: String(line.drop { $0 != ":" }.dropFirst(2)), tags: tags, steps: background)
                (section, tags) = (.scenario, [])
            } else if line.hasPrefix("Examples:") {
                (section, exampleTags, columns, tags) = (.examples, tags, nil, [])
            } else if line.hasPrefix("|") {
                readRow(line)
            } else {
                let step = Step(text: String(line.drop { $0 != " " }.dropFirst()))
                if section == .background { background.append(step) } else { scenario?.steps.append(step) }
            }
        }

        private mutating func readRow(_ line: String) {
            let cells = line.split(separator: "|", omittingEmptySubsequences: false).dropFirst().dropLast()
                .map { $0.trimmingCharacters(in: .whitespaces) }
            guard section == .examples, var example = scenario else {
                let last = (scenario?.steps.count ?? 1) - 1
                scenario?.steps[last].rows.append(cells)
                return
            }
            guard let columns else {
                columns = cells
                return
            }
            example.tags.formUnion(exampleTags)
            example.values = cells
            for (name, cell) in zip(columns, cells) {
                for index in example.steps.indices {
                    example.steps[index].text = example.steps[index].text.replacingOccurrences(
                        of: "<\(name)>", with: cell)
                }
            }
            finished.append(example)
        }

        private mutating func endScenario() {
            if let scenario, !isOutline { finished.append(scenario) }
            scenario = nil
        }

        mutating func finish() -> [Scenario] {
            endScenario()
            return finished
        }
    }
}
