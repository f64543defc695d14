import LarderConfig
import LarderConfigModel
import LarderProtocol

extension ConfigSchema: Method {
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let namespace = try call.namespace(call.parameters.namespace)
        return .task(
            TaskReply(size: .small) { () async throws(WireError) in
                guard let schema = await namespace.store.schema else {
                    throw WireError(
                        .notFound, "no schema is in force in namespace \"\(namespace.name)\"; the setting is \"schema\""
                    )
                }
                return Result(
                    namespace: namespace.name, schema: schema.document, digest: "sha256:" + schema.digest.text,
                    path: schema.settings.path, enforce: schema.settings.enforcement.rawValue,
                    assertFormats: schema.settings.assertsFormats)
            })
    }
}
