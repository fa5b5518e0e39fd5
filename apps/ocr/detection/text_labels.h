// Labels of text in pictures: files in MindOCR's form, and ICDAR's own.
#pragma once

#include <apps/ocr/detection/targets.h>
#include <lockstep/data/files/items.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::ocr {

/// The words of one picture, and their position in the label files.
struct LabelledPicture {
  std::string name;  ///< the form in the label file
  Words words;
  std::string label_file;
  int line = 0;
};

/// A line `img_61.jpg<TAB>[{"transcription": "MASA", "points": [[310,104], ...]}, ...]`, in the form of MindOCR's and
/// PaddleOCR's lists. The text `###` or `*` is an ignored word; other keys are ignored. Error(data), without a
/// position, for anything else: no tab, other JSON, fewer than three corners, a coordinate that is not a number or
/// farther than 100000 from 0.
LabelledPicture parse_label_line(std::string_view line);

/// The form of a line in ICDAR's files. Blanks around numbers are ignored.
enum class WordForm {
  icdar2015,  ///< x1,y1,...,x4,y4,text, where the text may have commas
  mlt,        ///< x1,y1,...,x4,y4,script,text
  icdar2013   ///< left top right bottom "text", with blanks or commas between
};

/// Errors as above.
Word parse_icdar_line(std::string_view line, WordForm form = WordForm::icdar2015);

/// The form of a file, and the handling of unreadable items.
struct LabelReading {
  std::string key;              ///< the configuration key that names the file
  std::string labels = "auto";  ///< data.labels
  data::BadItems& bad;          ///< pictures with unusable words
};

/// A file of such lines, UTF-8 with LF or CR LF. Errors have its name and line. If bad items are left out, an
/// unreadable word becomes an ignored word around its readable corners; a picture is left out if none of its words can
/// be read, or if not even the position of a word can be read. The log reports this, and the polygons that were
/// repaired (untangled(), or ignored).
std::vector<LabelledPicture> read_label_file(const std::filesystem::path& file, const LabelReading& reading);

/// A folder with a file `gt_NAME.txt` or NAME.txt of ICDAR's for each picture of the folder `pictures`, in the order of
/// their names. The form is that of most lines of all files, unless data.labels sets it; it is logged if it is not that
/// of 2015. Error(data) if a picture has no such file; Error(config) for files of other programs, by name.
std::vector<LabelledPicture> read_icdar_folder(const std::filesystem::path& folder,
                                               const std::filesystem::path& pictures, const LabelReading& reading);

}  // namespace lockstep::ocr
