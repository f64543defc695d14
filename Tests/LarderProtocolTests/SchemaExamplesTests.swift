import Foundation
import LarderJSON
import LarderProtocol
import TestSupport
import Testing

@Suite("Generated types and the examples of the schemas")
struct SchemaExamplesTests {
    /// The name of a method, with functions that decode its parameters or its result and encode them again.
    private struct Method: Sendable {
        let name: String
        let parameters: @Sendable (JSONValue) throws -> JSONValue
        let result: @Sendable (JSONValue) throws -> JSONValue

        init<Wire: WireMethod>(_: Wire.Type) {
            name = Wire.name
            parameters = { value in
                let read = try Wire.Parameters(params: value)
                return JSONValue.building { read.write(to: &$0) }
            }
            result = { value in
                let read = try Wire.Result(from: value)
                return JSONValue.building { read.write(to: &$0) }
            }
        }
    }

    private static let methods = AllMethods.types.map { Method($0) }

    /// The schemas by method name.
    private static func schemas() throws -> [String: JSONValue] {
        let folder = Checkout.root.appending(path: "Protocol/schemas/methods")
        let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        return Dictionary(
            uniqueKeysWithValues: try files.map {
                ($0.deletingPathExtension().lastPathComponent, try JSONValue(parsing: Array(Data(contentsOf: $0))))
            })
    }

    @Test("each schema of a method has a generated type, and each generated method type has a schema")
    func complete() throws {
        #expect(Set(Self.methods.map(\.name)) == Set(try Self.schemas().keys))
    }

    @Test("each example in the schemas survives decoding and encoding")
    func examples() throws {
        let schemas = try Self.schemas()
        for method in Self.methods {
            for example in schemas[method.name]?["examples"]?.elements ?? JSONValue.array([]).elements {
                let (params, result) = (try #require(example["params"]), try #require(example["result"]))
                // Parameters are written with paths as JSON Pointers and without defaults. The first round trip can
                // therefore change their text, but the second one cannot.
                let written = try method.parameters(params)
                #expect(try method.parameters(written).compactText == written.compactText, "\(method.name)")
                #expect(try method.result(result).compactText == result.compactText, "\(method.name)")
            }
        }
    }

    @Test("each method rejects an unknown parameter")
    func unknownParameter() throws {
        let schemas = try Self.schemas()
        for method in Self.methods {
            let params = try method.parameters(schemas[method.name]?["examples"]?[0]?["params"] ?? [:])
            let error = #expect(throws: WireError.self, "\(method.name)") {
                try method.parameters(MergePatch.apply(["pth": 1], to: params))
            }
            #expect(error?.code == .invalidParams, "\(method.name)")
            #expect(
                error?.detail.hasPrefix("unknown parameter \"pth\"; ") == true, "\(method.name): \(error?.detail ?? "")"
            )
        }
    }
}

@Suite("Requirements of methods")
struct RequirementTests {
    @Test("a method requires a right in the namespace that its parameters name")
    func namespace() {
        #expect(ConfigGet.requirement(ConfigGet.Parameters(namespace: "web")) == .inNamespace(.read, "web"))
        #expect(
            ConfigBackup.requirement(ConfigBackup.Parameters())
                == .allInNamespace([.administer, .read, .secrets], "default"))
    }

    @Test("a forced refresh requires the right to push instead of the right to read")
    func forced() {
        #expect(ConfigRefresh.requirement(ConfigRefresh.Parameters()) == .inNamespace(.read, "default"))
        #expect(ConfigRefresh.requirement(ConfigRefresh.Parameters(force: true)) == .inNamespace(.push, "default"))
    }

    @Test("a report without values requires the right `monitor`, or the right `read` in its namespaces")
    func monitoring() {
        #expect(ConfigStatus.requirement(ConfigStatus.Parameters()) == .monitoring(nil))
        #expect(ConfigStatus.requirement(ConfigStatus.Parameters(namespace: "web")) == .monitoring("web"))
        #expect(AgentStats.requirement(NoParameters()) == .monitoring(nil))
    }

    @Test("a method without a namespace requires a right for the whole agent, a right for an image URL, or none")
    func general() {
        #expect(AgentPing.requirement(NoParameters()) == .nothing)
        #expect(ImageClear.requirement(ImageClear.Parameters()) == .general(.administer))
        let put = ImagePut.Parameters(ImageReference(url: "https://a/1.png"), .inline([]))
        #expect(ImagePut.requirement(put) == .image(url: "https://a/1.png", .images, and: .push))
        #expect(
            ImageRemove.requirement(ImageRemove.Parameters(.prefix("https://a/")))
                == .image(url: "https://a/", .administer))
    }
}
