// The suppressions of ThreadSanitizer: OpenSSL was built without it, so the locks around the certificates that two of
// its contexts share are not seen.
extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier): the sanitizer's name
  return "called_from_lib:libcrypto.so\n";
}
