// Whatever bytes are taken for a CSV file, each row is read or is an Error, and the reader comes to the end.
#include <lockstep/base/error.h>
#include <lockstep/data/files/text_files.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  lockstep::data::CsvReader reader(text, "table.csv", size > 0 && data[0] == ';' ? ';' : ',',
                                   /*trims=*/size > 1 && data[1] == ' ');
  std::size_t rows = 0, cells = 0;
  for (bool more = true; more; ++rows) {
    if (rows > size + 1) std::abort();
    try {
      const auto row = reader.next();
      more = row.has_value();
      if (row && row->cells.empty()) std::abort();
      if (row) cells += row->cells.size();
    } catch (const lockstep::Error&) {
    }
  }
  if (cells > size + 1) std::abort();
  lockstep::data::for_each_line(text, [&](std::string_view line, int) {
    if (line.empty() || line.find('\n') != std::string_view::npos) std::abort();
  });
  return 0;
}
