// Stand-ins for text detection's parts in a build without OpenCV: names whose options throw when they are read.
#include <apps/ocr/missing_parts.h>

#include <lockstep/base/config.h>
#include <lockstep/base/error.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep::ocr {
namespace {

struct Missing {
  std::string name;
};

void describe(ConfigFields& fields, Missing& options) {
  if (fields.purpose() != ConfigFields::Purpose::reading) return;
  fail(ErrorKind::unsupported, "ocr",
       "'{}' needs OpenCV's imgproc and Clipper 6, and this Lockstep was built without them; install Debian's "
       "libopencv-imgproc-dev and libpolyclipping-dev, and build it again with -DLOCKSTEP_WITH_OCR=ON",
       options.name);
}

/// Options are read before a part is used in any other way.
template <typename Part>
void add(std::vector<Part>& parts, const std::string& name) {
  Part part{};
  part.name = name;
  part.doc = "not in this build: needs OpenCV and Clipper";
  part.options = PartOptions::of(Missing{name});
  parts.push_back(std::move(part));
}

}  // namespace

void add_missing_parts(train::Parts& parts) {
  add(parts.models, "dbnet");
  add(parts.data, "text_boxes");
  add(parts.tasks, "text_detection");
  for (const auto* name : {"text_random_flip", "text_random_rotate", "text_random_scale", "text_random_crop",
                           "text_resize", "text_shrink_map", "text_border_map"}) {
    add(parts.transforms, name);
  }
}

}  // namespace lockstep::ocr
