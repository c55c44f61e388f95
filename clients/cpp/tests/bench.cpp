// Recording beside writing the same values to plain files; `make bench` runs and times it.
// bench record|plain FOLDER COUNT ELEMENTS writes so many tensors of so many float32.
#include "../firstdiff.hpp"

#ifndef _WIN32
#include <fcntl.h>
#include <unistd.h>
#endif

int main(int count, char** arguments) {
  if (count != 5) return 2;
  const std::string mode = arguments[1], folder = arguments[2];
  const size_t tensors = std::strtoull(arguments[3], nullptr, 10), elements = std::strtoull(arguments[4], nullptr, 10);
  std::vector<float> values(elements + 32);  // the 128 bytes that the header of a .npy file has
  for (size_t index = 0; index < values.size(); ++index) values[index] = float(index);
  if (mode == "record") {
    firstdiff::Recorder recorder(folder);
    for (size_t number = 0; number < tensors; ++number)
      if (!recorder.tap("layers." + std::to_string(number) + ".out", values.data(), elements, {int64_t(elements)})) return 1;
    return recorder.close() ? 0 : 1;
  }
  std::filesystem::create_directories(folder);
  for (size_t number = 0; number < tensors; ++number) {
    char path[4096];
    std::snprintf(path, sizeof path, "%s/%06zu.bin", folder.c_str(), number);
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    const size_t size = 4 * values.size();
    if (file < 0 || write(file, values.data(), size) != ssize_t(size) || close(file)) return 1;
  }
  return 0;
}
