// The page put together from its parts, with the hashes of the inline ones.
#include <lockstep/base/crypto.h>
#include <lockstep/dashboard/page.h>

#include <fmt/format.h>

#include <cstddef>
#include <stdexcept>

namespace lockstep::dashboard {
namespace {

constexpr std::string_view kStyleMark = "/*STYLE*/";
constexpr std::string_view kScriptMark = "/*SCRIPT*/";
constexpr std::string_view kHead = "<head>";
constexpr std::string_view kDataMark = "<!--DATA-->";

/// The marks are in the file that the build embeds; page tests check that.
std::string with(std::string text, std::string_view mark, std::string_view content) {
  const auto place = text.find(mark);
  if (place == std::string::npos) throw std::logic_error("the page has no mark " + std::string(mark));
  return text.replace(place, mark.size(), content);
}

int value_of(char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; }

/// "sha256-" and the digest in Base64, as in the header.
std::string hash_of(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  const auto hex = hash.hex();
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(value_of(hex[i]) * 16 + value_of(hex[i + 1]));
  }
  return "sha256-" + to_base64(bytes);
}

std::string policy(std::string_view connections) {
  return fmt::format(
      "default-src 'none'; style-src '{}'; script-src '{}'; img-src data:; connect-src {}; base-uri 'none'; "
      "form-action 'none'",
      hash_of(kPageStyle), hash_of(kPageScript), connections);
}

/// Data goes in before the script, and the parts in one after another: a mark in a later part is not replaced.
std::string page(std::string_view data) {
  auto text = with(std::string(kPageHtml), kDataMark, data);
  text = with(std::move(text), kStyleMark, kPageStyle);
  // The data may have this mark as a text, and is before the script.
  const auto place = text.rfind(kScriptMark);
  if (place == std::string::npos) throw std::logic_error("the page has no mark for its script");
  return text.replace(place, kScriptMark.size(), kPageScript);
}

}  // namespace

std::string live_page() { return page(""); }

std::string page_of_ended_job(std::string_view data) {
  // Beside the data, only tags would have a "<" here, and "</script>" would end the data.
  std::string escaped;
  escaped.reserve(data.size());
  for (const char each : data) {
    if (each == '<') {
      escaped += "\\u003c";
    } else {
      escaped += each;
    }
  }
  const auto text = page(fmt::format("<script type=\"application/json\" id=\"data\">{}</script>", escaped));
  // A file has no header.
  return with(text, kHead,
              fmt::format("{}\n<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">", kHead, policy("'none'")));
}

std::string content_security_policy() { return policy("'self'") + "; frame-ancestors 'none'"; }

}  // namespace lockstep::dashboard
