// A strict decoder of UTF-8, and a table of letters with marks, by which composed and decomposed texts are compared.
#include <lockstep/base/text.h>
#include <lockstep/base/utf8.h>

#include <algorithm>
#include <array>
#include <string>

namespace lockstep {
namespace {

/// Letters, each followed by the letters that are composed of it and marks.
constexpr std::array kComposed = {
    std::u32string_view(U"AÀÁÂÃÄÅĀĂĄḀẠẢẤẦẨẪẬẮẰẲẴẶ"),
    std::u32string_view(U"BḂḄḆ"),
    std::u32string_view(U"CÇĆĈĊČḈ"),
    std::u32string_view(U"DĎḊḌḎḐḒ"),
    std::u32string_view(U"EÈÉÊËĒĔĖĘĚḔḖḘḚḜẸẺẼẾỀỂỄỆ"),
    std::u32string_view(U"FḞ"),
    std::u32string_view(U"GĜĞĠĢḠ"),
    std::u32string_view(U"HĤḢḤḦḨḪ"),
    std::u32string_view(U"IÌÍÎÏĨĪĬĮİḬḮỈỊ"),
    std::u32string_view(U"JĴ"),
    std::u32string_view(U"KĶḰḲḴ"),
    std::u32string_view(U"LĹĻĽḶḸḺḼ"),
    std::u32string_view(U"MḾṀṂ"),
    std::u32string_view(U"NÑŃŅŇṄṆṈṊ"),
    std::u32string_view(U"OÒÓÔÕÖŌŎŐṌṎṐṒỌỎỐỒỔỖỘỚỜỞỠỢ"),
    std::u32string_view(U"PṔṖ"),
    std::u32string_view(U"RŔŖŘṘṚṜṞ"),
    std::u32string_view(U"SŚŜŞŠṠṢṤṦṨ"),
    std::u32string_view(U"TŢŤṪṬṮṰ"),
    std::u32string_view(U"UÙÚÛÜŨŪŬŮŰŲṲṴṶṸṺỤỦỨỪỬỮỰ"),
    std::u32string_view(U"VṼṾ"),
    std::u32string_view(U"WŴẀẂẄẆẈ"),
    std::u32string_view(U"XẊẌ"),
    std::u32string_view(U"YÝŶŸẎỲỴỶỸ"),
    std::u32string_view(U"ZŹŻŽẐẒẔ"),
    std::u32string_view(U"aàáâãäåāăąḁạảấầẩẫậắằẳẵặ"),
    std::u32string_view(U"bḃḅḇ"),
    std::u32string_view(U"cçćĉċčḉ"),
    std::u32string_view(U"dďḋḍḏḑḓ"),
    std::u32string_view(U"eèéêëēĕėęěḕḗḙḛḝẹẻẽếềểễệ"),
    std::u32string_view(U"fḟ"),
    std::u32string_view(U"gĝğġģḡ"),
    std::u32string_view(U"hĥḣḥḧḩḫẖ"),
    std::u32string_view(U"iìíîïĩīĭįḭḯỉị"),
    std::u32string_view(U"jĵ"),
    std::u32string_view(U"kķḱḳḵ"),
    std::u32string_view(U"lĺļľḷḹḻḽ"),
    std::u32string_view(U"mḿṁṃ"),
    std::u32string_view(U"nñńņňṅṇṉṋ"),
    std::u32string_view(U"oòóôõöōŏőṍṏṑṓọỏốồổỗộớờởỡợ"),
    std::u32string_view(U"pṕṗ"),
    std::u32string_view(U"rŕŗřṙṛṝṟ"),
    std::u32string_view(U"sśŝşšṡṣṥṧṩ"),
    std::u32string_view(U"tţťṫṭṯṱẗ"),
    std::u32string_view(U"uùúûüũūŭůűųṳṵṷṹṻụủứừửữự"),
    std::u32string_view(U"vṽṿ"),
    std::u32string_view(U"wŵẁẃẅẇẉẘ"),
    std::u32string_view(U"xẋẍ"),
    std::u32string_view(U"yýÿŷẏẙỳỵỷỹ"),
    std::u32string_view(U"zźżžẑẓẕ"),
    std::u32string_view(U"ſẛ"),
    std::u32string_view(U"うゔ"),
    std::u32string_view(U"かが"),
    std::u32string_view(U"きぎ"),
    std::u32string_view(U"くぐ"),
    std::u32string_view(U"けげ"),
    std::u32string_view(U"こご"),
    std::u32string_view(U"さざ"),
    std::u32string_view(U"しじ"),
    std::u32string_view(U"すず"),
    std::u32string_view(U"せぜ"),
    std::u32string_view(U"そぞ"),
    std::u32string_view(U"ただ"),
    std::u32string_view(U"ちぢ"),
    std::u32string_view(U"つづ"),
    std::u32string_view(U"てで"),
    std::u32string_view(U"とど"),
    std::u32string_view(U"はばぱ"),
    std::u32string_view(U"ひびぴ"),
    std::u32string_view(U"ふぶぷ"),
    std::u32string_view(U"へべぺ"),
    std::u32string_view(U"ほぼぽ"),
    std::u32string_view(U"ゝゞ"),
    std::u32string_view(U"ウヴ"),
    std::u32string_view(U"カガ"),
    std::u32string_view(U"キギ"),
    std::u32string_view(U"クグ"),
    std::u32string_view(U"ケゲ"),
    std::u32string_view(U"コゴ"),
    std::u32string_view(U"サザ"),
    std::u32string_view(U"シジ"),
    std::u32string_view(U"スズ"),
    std::u32string_view(U"セゼ"),
    std::u32string_view(U"ソゾ"),
    std::u32string_view(U"タダ"),
    std::u32string_view(U"チヂ"),
    std::u32string_view(U"ツヅ"),
    std::u32string_view(U"テデ"),
    std::u32string_view(U"トド"),
    std::u32string_view(U"ハバパ"),
    std::u32string_view(U"ヒビピ"),
    std::u32string_view(U"フブプ"),
    std::u32string_view(U"ヘベペ"),
    std::u32string_view(U"ホボポ"),
    std::u32string_view(U"ワヷ"),
    std::u32string_view(U"ヰヸ"),
    std::u32string_view(U"ヱヹ"),
    std::u32string_view(U"ヲヺ"),
    std::u32string_view(U"ヽヾ"),
};

bool is_mark(char32_t code) { return (code >= 0x300 && code <= 0x36F) || code == 0x3099 || code == 0x309A; }

/// The text with letters without marks and syllables of Hangul as their parts; bytes that are not UTF-8 stay unchanged.
std::u32string letters_of(std::string_view text) {
  constexpr char32_t kFirstSyllable = 0xAC00, kLastSyllable = 0xD7A3, kSyllables = 588, kEnds = 28;
  std::u32string letters;
  while (!text.empty()) {
    auto [code, bytes] = first_character(text);
    if (bytes == 0) code = static_cast<unsigned char>(text.front());
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
    if (is_mark(code)) continue;
    if (code >= kFirstSyllable && code <= kLastSyllable) {
      const auto syllable = code - kFirstSyllable;
      letters += {0x1100 + syllable / kSyllables, 0x1161 + syllable % kSyllables / kEnds};
      if (syllable % kEnds > 0) letters += 0x11A7 + syllable % kEnds;
      continue;
    }
    const auto composed = std::ranges::find_if(
        kComposed, [code = code](std::u32string_view of) { return of.find(code, 1) != std::u32string_view::npos; });
    letters += code < 0x80 || composed == kComposed.end() ? code : composed->front();
  }
  return letters;
}

}  // namespace

Utf8Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < bytes) return {};
  char32_t code = first & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    code = code << 6U | (byte(i) & 0x3FU);
  }
  const bool too_long = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  const bool is_none = (code >= 0xD800 && code < 0xE000) || code > 0x10FFFF;
  return too_long || is_none ? Utf8Character{} : Utf8Character{code, bytes};
}

std::optional<std::size_t> first_not_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto bytes = first_character(text.substr(at)).bytes;
    if (bytes == 0) return at;
    at += bytes;
  }
  return std::nullopt;
}

bool differ_by_accents(std::string_view one, std::string_view other) {
  const auto is_ascii = [](std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  };
  return one != other && !is_ascii(one) && !is_ascii(other) && letters_of(one) == letters_of(other);
}

}  // namespace lockstep
