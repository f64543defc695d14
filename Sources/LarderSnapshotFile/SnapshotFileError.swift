/// Why a snapshot cannot be written as a file, or a file cannot be read as a snapshot.
package struct SnapshotFileError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The kind of error. Later versions may add codes.
    package struct Code: Sendable, Hashable, CustomStringConvertible {
        private enum Value: String, Sendable {
            case tooLarge, notASnapshotFile, unsupportedVersion, damaged, notSealed, systemFailed, invalidPath
        }

        private let value: Value

        private init(_ value: Value) { self.value = value }

        /// The snapshot needs a file of more than 4 GiB, the maximum of the format.
        package static var tooLarge: Code { Code(.tooLarge) }
        /// The file does not begin with the signature of a snapshot file.
        package static var notASnapshotFile: Code { Code(.notASnapshotFile) }
        /// The file has a version of the format that this library cannot read.
        package static var unsupportedVersion: Code { Code(.unsupportedVersion) }
        /// The content of the file is inconsistent or refers beyond its end.
        package static var damaged: Code { Code(.damaged) }
        /// The file is not sealed, so a process could still change or shorten it.
        package static var notSealed: Code { Code(.notSealed) }
        /// The system could not create or map the file.
        package static var systemFailed: Code { Code(.systemFailed) }
        /// A path is malformed.
        package static var invalidPath: Code { Code(.invalidPath) }

        /// The name of the code, such as `tooLarge`.
        package var description: String { value.rawValue }
    }

    /// The kind of error.
    package let code: Code
    /// A description of the error in one line, with advice if there is any.
    package let reason: String

    /// The same as ``reason``.
    package var description: String { reason }

    init(_ code: Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }
}
