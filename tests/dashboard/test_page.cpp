// The page as one file: its parts, the hashes of the inline ones, and the data of a job that has ended.
#include <lockstep/base/crypto.h>
#include <lockstep/dashboard/page.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep::dashboard {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// The text between the marks, of which the first is in `text` once.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const auto from = text.find(begin);
  EXPECT_NE(from, std::string::npos) << begin;
  EXPECT_EQ(text.find(begin, from + 1), std::string::npos) << begin;
  const auto start = from + begin.size();
  return text.substr(start, text.find(end, start) - start);
}

std::string digest_of(const std::string& text) {
  Sha256 hash;
  hash.update(text);
  return hash.hex();
}

/// The digest in hex of "sha256-..." behind the directive.
std::string hash_for(const std::string& directive) {
  const auto bytes = from_base64(between(content_security_policy(), directive + " 'sha256-", "'"));
  std::string hex;
  for (const char byte : bytes.value_or("")) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return hex;
}

TEST(Page, HasItsPartsAndNoMarks) {
  EXPECT_THAT(live_page(), AllOf(StartsWith("<!doctype html>"), HasSubstr(std::string(kPageStyle)),
                                 HasSubstr(std::string(kPageScript)), Not(HasSubstr("/*STYLE*/")),
                                 Not(HasSubstr("/*SCRIPT*/")), Not(HasSubstr("<!--DATA-->"))));
  EXPECT_THAT(live_page(), Not(HasSubstr("id=\"data\"")));
}

TEST(Page, IsAllowedToRunItsOwnPartsAlone) {
  EXPECT_EQ(hash_for("style-src"), digest_of(between(live_page(), "<style>", "</style>")));
  EXPECT_EQ(hash_for("script-src"), digest_of(between(live_page(), "<script>", "</script>")));
  EXPECT_THAT(content_security_policy(),
              AllOf(StartsWith("default-src 'none'; "), HasSubstr("connect-src 'self'"), HasSubstr("base-uri 'none'"),
                    HasSubstr("form-action 'none'"), HasSubstr("frame-ancestors 'none'"), Not(HasSubstr("unsafe"))));
}

TEST(Page, FetchesNothing) {
  for (const char* way : {"src=\"http", "href=\"http", "@import", "url(http", "//cdn", "import("}) {
    EXPECT_THAT(live_page(), Not(HasSubstr(way)));
  }
}

TEST(PageOfAnEndedJob, HasItsDataAndNoTagsInThem) {
  const std::string text = "</script><script>alert(1)</script><!-- /*SCRIPT*/ /*STYLE*/ <!--DATA-->";
  const auto page = page_of_ended_job(nlohmann::json({{"line", text}}).dump());
  const auto data = between(page, "<script type=\"application/json\" id=\"data\">", "</script>");
  EXPECT_THAT(data, Not(HasSubstr("<")));
  EXPECT_EQ(nlohmann::json::parse(data)["line"], text);
  EXPECT_EQ(between(page, "<script>", "</script>"), kPageScript);
  EXPECT_EQ(between(page, "<style>", "</style>"), kPageStyle);
}

TEST(PageOfAnEndedJob, ConnectsToNobody) {
  const auto policy =
      between(page_of_ended_job("{}"), "<head>\n<meta http-equiv=\"Content-Security-Policy\" content=\"", "\"");
  EXPECT_THAT(policy, AllOf(HasSubstr("connect-src 'none'"), HasSubstr("sha256-")));
}

}  // namespace
}  // namespace lockstep::dashboard
