// A reader of 64-bit ELF files with bounds checks: header, section table, dynamic symbols.
#include <lockstep/base/error.h>
#include <lockstep/train/plugins/elf_file.h>

#include <elf.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace lockstep::train {
namespace {

constexpr std::string_view kElf = "plugins";

[[noreturn]] void damaged(std::string_view what) { fail(ErrorKind::data, kElf, "is damaged: {}", what); }

template <typename Struct>
Struct read_as(std::string_view bytes, std::uint64_t offset = 0) {
  Struct value;
  if (offset > bytes.size() || bytes.size() - offset < sizeof value) damaged("it ends too early");
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string_view text_at(std::string_view texts, std::uint64_t offset) {
  if (offset >= texts.size()) return {};
  const auto rest = texts.substr(offset);
  return rest.substr(0, std::min(rest.find('\0'), rest.size()));
}

/// The header of the running program: a library must have equal values to be loadable.
Elf64_Ehdr header_of_this_program() {
  std::ifstream self("/proc/self/exe", std::ios::binary);
  Elf64_Ehdr header{};
  self.read(reinterpret_cast<char*>(&header), sizeof header);
  return header;
}

void require_loadable(const Elf64_Ehdr& header) {
  const auto here = header_of_this_program();
  const auto same = [&](int index) { return header.e_ident[index] == here.e_ident[index]; };
  if (!same(EI_CLASS) || !same(EI_DATA) || header.e_machine != here.e_machine) {
    fail(ErrorKind::data, kElf, "is for another kind of processor (ELF machine {}, here {})", header.e_machine,
         here.e_machine);
  }
  if (header.e_type != ET_DYN) {
    fail(ErrorKind::data, kElf, "is an ELF file, but no shared library; link it with -shared");
  }
}

}  // namespace

ElfFile::ElfFile(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) fail(ErrorKind::io, kElf, "is a folder");
  size_ = std::filesystem::file_size(path, error);
  if (error) fail(ErrorKind::io, kElf, "cannot be read: {}", error.message());
  file_.open(path, std::ios::binary);
  if (!file_) fail(ErrorKind::io, kElf, "cannot be read: {}", std::generic_category().message(errno));
  const auto start = bytes(0, std::min<std::uint64_t>(size_, sizeof(Elf64_Ehdr)));
  if (!start.starts_with(ELFMAG)) fail(ErrorKind::data, kElf, "is not a shared library, and no ELF file at all");
  const auto header = read_as<Elf64_Ehdr>(start);
  require_loadable(header);
  if (header.e_shoff == 0 || header.e_shentsize != sizeof(Elf64_Shdr)) damaged("it has no table of sections");
  read_sections(header.e_shoff, header.e_shnum, header.e_shstrndx);
}

std::string ElfFile::bytes(std::uint64_t offset, std::uint64_t size) {
  if (offset > size_ || size > size_ - offset) damaged("it ends too early");
  std::string result(size, '\0');
  file_.seekg(static_cast<std::streamoff>(offset));
  file_.read(result.data(), static_cast<std::streamsize>(size));
  if (!file_) fail(ErrorKind::io, kElf, "cannot be read to its end");
  return result;
}

std::string ElfFile::content(const Section& section) {
  return section.type == SHT_NOBITS ? std::string() : bytes(section.offset, section.size);
}

void ElfFile::read_sections(std::uint64_t offset, std::uint64_t count, std::uint64_t names) {
  const auto table = bytes(offset, count * sizeof(Elf64_Shdr));
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto header = read_as<Elf64_Shdr>(table, i * sizeof(Elf64_Shdr));
    sections_.push_back({header.sh_name, header.sh_type, header.sh_link, header.sh_offset, header.sh_size});
  }
  if (names >= sections_.size()) damaged("its sections have no names");
  names_ = content(sections_[names]);
}

std::optional<std::string> ElfFile::section(std::string_view name) {
  for (const auto& section : sections_) {
    if (text_at(names_, section.name) == name) return content(section);
  }
  return std::nullopt;
}

bool ElfFile::exports(std::string_view symbol) {
  for (const auto& section : sections_) {
    if (section.type != SHT_DYNSYM) continue;
    if (section.link >= sections_.size()) damaged("its symbols have no names");
    const auto symbols = content(section);
    const auto names = content(sections_[section.link]);
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= symbols.size(); at += sizeof(Elf64_Sym)) {
      const auto entry = read_as<Elf64_Sym>(symbols, at);
      if (entry.st_shndx != SHN_UNDEF && text_at(names, entry.st_name) == symbol) return true;
    }
  }
  return false;
}

}  // namespace lockstep::train
