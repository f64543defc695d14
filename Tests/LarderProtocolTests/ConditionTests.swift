import LarderJSON
import Testing

@testable import LarderProtocol

@Suite("Conditions and unknown parameters")
struct ConditionTests {
    private func detail(_ params: String) -> String? {
        do {
            _ = try ConfigSet.Parameters(params: JSONValue(parsing: params))
            return nil
        } catch {
            return (error as? WireError)?.detail
        }
    }

    @Test("parameters with conditions are the same after they are written and read again")
    func roundTrip() throws {
        let parameters = ConfigSet.Parameters(
            path: JSONPath(["a"]), value: 1, ifRevision: WireRevisionCondition(4, epoch: "00ff00ff00ff00ff"),
            ifValue: .equals(["x": 1]), reason: "why", isDryRun: true)
        let written = JSONValue.building { parameters.write(to: &$0) }
        let read = try ConfigSet.Parameters(params: written)
        #expect(read.ifRevision == parameters.ifRevision && read.ifValue == parameters.ifValue)
        #expect(read.reason == "why" && read.isDryRun)
        let change = ConfigApply.Change(.set(1, ttlMilliseconds: 5), at: JSONPath(["a"]), ifValue: .absent)
        let apply = ConfigApply.Parameters([change, ConfigApply.Change(.unset, at: JSONPath(["b"]))])
        #expect(
            try ConfigApply.Parameters(params: JSONValue.building { apply.write(to: &$0) }).changes == apply.changes)
    }

    @Test("a null ifValue is an error among named parameters, and counts as omitted among positional ones")
    func null() throws {
        #expect(detail(#"{"path":"a","value":1,"ifValue":null}"#)?.contains("ifAbsent") == true)
        let positional = try JSONValue(parsing: #"["a",1,null,null,null,null,null,null,true]"#)
        #expect(try ConfigSet.Parameters(params: positional).ifValue == .absent)
    }

    @Test("the error for an unknown parameter suggests the closest known one")
    func unknown() {
        #expect(detail(#"{"path":"a","value":1}"#) == nil)
        #expect(detail(#"{"path":"a","value":1,"value":2,"reason":null}"#) == nil)
        #expect(
            detail(#"{"path":"a","value":1,"ifrevison":1}"#)
                == #"unknown parameter "ifrevison"; did you mean "ifRevision"?"#)
        #expect(
            detail(#"{"path":"a","valeu":1}"#)?.hasPrefix(#"unknown parameter "valeu"; did you mean "value""#) == true)
        #expect(detail(#"{"path":"a","value":1,"p\u0061th":"b"}"#) == nil)
    }

    @Test("methods that read reject unknown parameters, also beside a path and without known parameters")
    func unknownInReads() throws {
        func detail(_ type: (some WireParameters).Type, _ text: String) throws -> String? {
            let params = try JSONValue(parsing: text)
            do throws(WireError) {
                _ = try type.init(params: params)
                return nil
            } catch {
                return error.code == .invalidParams ? error.detail : "another code"
            }
        }
        let suggestion = #"unknown parameter "pth"; did you mean "path"?"#
        #expect(try detail(ConfigGet.Parameters.self, #"{"pth":"x"}"#) == suggestion)
        #expect(try detail(ConfigGet.Parameters.self, #"{"path":"a","pth":"x"}"#) == suggestion)
        #expect(try detail(ConfigGet.Parameters.self, #"{"path":"","pth":"x"}"#) == suggestion)
        #expect(try detail(ConfigGet.Parameters.self, #"{"path":"a"}"#) == nil)
        #expect(try detail(ConfigGet.Parameters.self, #"{"path":"a","path":"b"}"#) == nil)
        #expect(try detail(ConfigGet.Parameters.self, #"{"path":"","namespace":"b"}"#) == nil)
        #expect(try detail(NoParameters.self, #"{"x":1}"#) == #"unknown parameter "x"; remove it"#)
        #expect(try detail(NoParameters.self, "{}") == nil)
        #expect(
            try detail(ImageReference.self, #"{"url":"u","cachekey":"k"}"#)
                == #"unknown parameter "cachekey"; did you mean "cacheKey"?"#)
        #expect(try detail(ImageGet.Parameters.self, #"{"url":"u","cacheKey":"k"}"#) == nil)
        #expect(
            try detail(ImagePrefetch.Parameters.self, #"{"urls":[{"url":"u","cachekey":"k"}]}"#)?
                .hasPrefix(#"element 1 of "urls": unknown parameter "cachekey""#) == true)
    }

    @Test("a reason has at most 1,024 characters, whatever their length in bytes")
    func reason() {
        #expect(detail(#"{"path":"a","value":1,"reason":"\#(String(repeating: "é", count: 1024))"}"#) == nil)
        #expect(
            detail(#"{"path":"a","value":1,"reason":"\#(String(repeating: "e", count: 1025))"}"#)?
                .contains("1025 characters") == true)
    }

    @Test("a conflict error contains the current state, and is the same after it is written and read again")
    func conflict() throws {
        let error = WireError(
            WireError.Conflict(revision: 4, epoch: "e", path: JSONPath(["a", "b.c"]), value: ["x": 1]), "detail")
        let written = JSONValue.building { error.write(to: &$0) }
        #expect(written["code"] == 16 && written["data"]?["path"] == ["a", "b.c"])
        #expect(WireError(from: written) == error)
        #expect(!error.code.isRetryable)
    }
}
