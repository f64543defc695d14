// `import LarderClient` is enough to use the whole library, including the protocol's results and JSON values.
@_exported public import LarderClientCore
