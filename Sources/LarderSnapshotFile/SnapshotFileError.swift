/// Why a snapshot cannot be written as a file, or a file cannot be read as a snapshot.
public struct SnapshotFileError: Error, Sendable, Equatable, CustomStringConvertible {
    /// What kind of fault it is. New codes may come with new versions.
    public struct Code: Sendable, Hashable, CustomStringConvertible {
        private enum Value: String, Sendable {
            case tooLarge, notASnapshotFile, unsupportedVersion, damaged, notSealed, systemFailed, invalidPath
        }

        private let value: Value

        private init(_ value: Value) { self.value = value }

        /// The snapshot needs more than the 4 GiB that the format reaches.
        public static var tooLarge: Code { Code(.tooLarge) }
        /// The file does not begin as a snapshot file does.
        public static var notASnapshotFile: Code { Code(.notASnapshotFile) }
        /// The file is of a later version of the format.
        public static var unsupportedVersion: Code { Code(.unsupportedVersion) }
        /// The file contradicts itself or reaches beyond its end.
        public static var damaged: Code { Code(.damaged) }
        /// Somebody could still change or shorten the file.
        public static var notSealed: Code { Code(.notSealed) }
        /// The system refused to make or to map the file.
        public static var systemFailed: Code { Code(.systemFailed) }
        public static var invalidPath: Code { Code(.invalidPath) }

        /// The code's name, as written in this source.
        public var description: String { value.rawValue }
    }

    /// What kind of fault it is.
    public let code: Code
    /// One line for people: what is wrong and, where it helps, what to do.
    public let reason: String

    public var description: String { reason }

    init(_ code: Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }
}
