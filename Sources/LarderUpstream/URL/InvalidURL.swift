/// Why a text is not a URL that can be requested.
package struct InvalidURL: Error, Sendable, Hashable {
    /// The problem and the advice, as the continuation of a sentence whose subject is the URL. Contains no part of the
    /// URL, because a URL may contain secrets.
    package let reason: String

    static let notHTTP = InvalidURL(
        reason: "is not an absolute http or https URL; begin it with \"http://\" or \"https://\"")
    static let credentials = InvalidURL(
        reason: "contains a user name or password; remove it, and send credentials in \"headers\" in the settings")
    static let control = InvalidURL(reason: "contains a space or a control character; percent-encode it")
    static let noHost = InvalidURL(reason: "has no host; write one after \"//\"")
    static let hostIsNotASCII = InvalidURL(
        reason: "has a host that is not ASCII; write it in its ASCII form, which begins with xn--")
    static let hostCharacters = InvalidURL(
        reason: "has a host with invalid characters; use letters, digits, hyphens, underscores and dots")
    static let hostLength = InvalidURL(
        reason: "has a host with an empty part, a part of more than 63 bytes, or more than 253 bytes; correct it")
    static let hostIsNumber = InvalidURL(
        reason: "has a host that ends in a number; write an address as four decimal numbers")
    static let bracketedHost = InvalidURL(
        reason:
            "has no valid IPv6 address between \"[\" and \"]\"; write one without a zone, or a name without brackets")
    static let port = InvalidURL(reason: "has a port that is not a number from 1 to 65535; correct it")
}
