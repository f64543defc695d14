import CLinuxShims
import Foundation
import TestSupport
import Testing

/// Extended attributes of files (xattr(7)).
enum ExtendedAttribute {
    static let accessList = "system.posix_acl_access"
    static let defaultList = "system.posix_acl_default"
    static let label = "security.selinux"

    /// A POSIX access control list that grants the user 65534 reading and writing. It grants the group of the file and
    /// other users nothing, although the mode is 0660, because the bits of the group are the mask of the list.
    static let listForOneUser: [UInt8] = {
        let entries: [(tag: UInt16, rights: UInt16, id: UInt32)] = [
            (0x01, 6, .max), (0x02, 6, 65_534), (0x04, 0, .max), (0x10, 6, .max), (0x20, 0, .max),
        ]
        var bytes: [UInt8] = []
        func append(_ number: some FixedWidthInteger) {
            withUnsafeBytes(of: number.littleEndian) { bytes += Array($0) }
        }
        append(UInt32(2))
        for entry in entries {
            append(entry.tag)
            append(entry.rights)
            append(entry.id)
        }
        return bytes
    }()

    static func set(_ name: String, of path: String, to value: [UInt8]) throws {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        defer { close(file) }
        guard larder_set_attribute(file, name, value, value.count) == 0 else {
            throw HarnessError.system("fsetxattr \(name) \(path)")
        }
    }

    static func remove(_ name: String, of path: String) throws {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        defer { close(file) }
        guard larder_remove_attribute(file, name) == 0 else {
            throw HarnessError.system("fremovexattr \(name) \(path)")
        }
    }

    /// The value of an attribute; nil if the file does not have it.
    static func value(_ name: String, of path: String) -> [UInt8]? {
        var value = [UInt8](repeating: 0, count: 1024)
        let count = larder_attribute(path, name, &value, value.count)
        return count < 0 ? nil : Array(value.prefix(count))
    }

    /// Whether the file system of the temporary directories has access control lists and attributes of users.
    static let areSupported = canSet([(defaultList, listForOneUser), ("user.larder", [1])])

    /// Whether this process can set SELinux labels of files there.
    static let labelsAreSupported = canSet([(label, Array("system_u:object_r:etc_t:s0\0".utf8))])

    private static func canSet(_ attributes: [(name: String, value: [UInt8])]) -> Bool {
        do {
            try withTemporaryDirectory { directory in
                for (name, value) in attributes { try set(name, of: directory, to: value) }
            }
            return true
        } catch {
            return false
        }
    }
}

extension Trait where Self == ConditionTrait {
    static var needsAttributes: Self {
        .enabled(if: ExtendedAttribute.areSupported, "needs a file system with ACLs and user attributes in /tmp")
    }
}
