import LarderFlagRules
import LarderJSON
import Testing
