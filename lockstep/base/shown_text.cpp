// Text cut at character boundaries of UTF-8, file types by their first bytes, and HOST:PORT with brackets for IPv6.
#include <lockstep/base/shown_text.h>

#include <fmt/format.h>

#include <array>
#include <utility>

namespace lockstep {

using namespace std::string_view_literals;

std::string cut_text(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  std::size_t end = most;
  const auto inside_a_character = [&] { return (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U; };
  for (int i = 0; i < 3 && end > 0 && inside_a_character(); ++i) --end;
  return fmt::format("{}... ({} bytes)", text.substr(0, end), text.size());
}

std::string_view kind_of_file(std::string_view begin) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kKinds = {{
      {"PK\x03\x04"sv, "a zip archive"},
      {"\x1f\x8b"sv, "a gzip file"},
      {"%PDF-"sv, "a PDF document"},
      {"\x7f"
       "ELF"sv,
       "an ELF program"},
      {"\x80\x02"sv, "a Python pickle"},
      {"\x80\x03"sv, "a Python pickle"},
      {"\x80\x04"sv, "a Python pickle"},
      {"\x80\x05"sv, "a Python pickle"},
      {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
      {"\x89PNG"sv, "a PNG picture"},
      {"\xff\xd8\xff"sv, "a JPEG picture"},
      {"GGUF"sv, "a GGUF file"},
  }};
  for (const auto& [magic, kind] : kKinds) {
    if (begin.starts_with(magic)) return kind;
  }
  return {};
}

std::string host_and_port(std::string_view host, std::uint16_t port) {
  const bool is_v6 = host.find(':') != std::string_view::npos;
  return is_v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

}  // namespace lockstep
