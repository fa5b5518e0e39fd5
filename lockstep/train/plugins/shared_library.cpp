// A check of ELF headers: the kind of file, the machine, and the place of the table of sections, which is at its end.
#include <lockstep/base/error.h>
#include <lockstep/train/plugins/shared_library.h>

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>

namespace lockstep::train {
namespace {

constexpr std::string_view kPlugins = "plugins";

/// The header of the running program: a library must have equal values to be loadable.
Elf64_Ehdr header_of_this_program() {
  std::ifstream self("/proc/self/exe", std::ios::binary);
  Elf64_Ehdr header{};
  self.read(reinterpret_cast<char*>(&header), sizeof header);
  return header;
}

}  // namespace

void require_shared_library(std::string_view bytes) {
  if (!bytes.starts_with(ELFMAG)) fail(ErrorKind::data, kPlugins, "is not a shared library, and no ELF file at all");
  Elf64_Ehdr header{};
  const auto here = header_of_this_program();
  std::memcpy(&header, bytes.data(), std::min(bytes.size(), sizeof header));
  const auto same = [&](int index) { return header.e_ident[index] == here.e_ident[index]; };
  if (!same(EI_CLASS) || !same(EI_DATA) || header.e_machine != here.e_machine) {
    fail(ErrorKind::data, kPlugins, "is for another kind of processor (ELF machine {}, here {})", header.e_machine,
         here.e_machine);
  }
  if (header.e_type != ET_DYN) {
    fail(ErrorKind::data, kPlugins, "is an ELF file, but no shared library; link it with -shared");
  }
  if (header.e_shoff == 0 || header.e_shentsize != sizeof(Elf64_Shdr)) {
    fail(ErrorKind::data, kPlugins, "is damaged: it has no table of sections");
  }
  const auto table = std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr);
  if (header.e_shoff > bytes.size() || bytes.size() - header.e_shoff < table) {
    fail(ErrorKind::data, kPlugins, "is damaged: it ends too early");
  }
}

}  // namespace lockstep::train
