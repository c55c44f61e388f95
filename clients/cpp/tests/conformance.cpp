// This client's program for the conformance set; tests/conformance/README.md describes what it must do.
#include "../firstdiff.hpp"
#include "../firstdiff_rng.hpp"

#include <iostream>
#include <memory>
#include <sstream>

using namespace firstdiff;
using Row = std::map<std::string, std::string>;

static std::vector<std::string> split(const std::string& text, char mark) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, mark);) parts.push_back(part);
  return parts;
}

static std::vector<Row> table(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const auto names = split(line, '\t');
  std::vector<Row> rows;
  while (std::getline(file, line)) {
    const auto fields = split(line, '\t');
    Row row;
    for (size_t field = 0; field < names.size(); ++field) row[names[field]] = fields[field];
    rows.push_back(row);
  }
  return rows;
}

static std::string decoded(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') { out += text[at]; continue; }
    out += char(std::stoi(text.substr(at + 1, 2), nullptr, 16));
    at += 2;
  }
  return out;
}

static std::string encoded(const std::string& text) {
  std::string out;
  for (const unsigned char byte : text) {
    char code[4];
    std::snprintf(code, sizeof code, "%%%02X", byte);
    const bool plain = std::isalnum(byte) && byte < 0x80;
    if (plain || byte == '.' || byte == '_' || byte == '-') out += char(byte);
    else out += code;
  }
  return out == "-" ? "%2D" : out;
}

static std::vector<int64_t> shape_of(const std::string& text) {
  std::vector<int64_t> shape;
  if (text != "scalar")
    for (const auto& size : split(text, ',')) shape.push_back(std::stoll(size));
  return shape;
}

static std::vector<unsigned char> from_hex(const std::string& text) {
  std::vector<unsigned char> bytes;
  for (size_t at = 0; at + 1 < text.size(); at += 2) bytes.push_back((unsigned char)std::stoi(text.substr(at, 2), nullptr, 16));
  return bytes;
}

static std::vector<unsigned char> values_of(const Row& row, size_t count, size_t size) {
  Rng rng(33, std::stoull(row.at("stream")));
  const std::string& kind = row.at("values");
  if (kind.rfind("hex:", 0) == 0) return from_hex(kind.substr(4));
  std::vector<unsigned char> bytes(count * size);
  if (kind == "normal") {
    for (size_t index = 0; index < count; ++index) {
      const double wide = rng.normal();
      const float narrow = float(wide);
      std::memcpy(&bytes[index * size], size == 4 ? static_cast<const void*>(&narrow) : &wide, size);
    }
    return bytes;
  }
  uint32_t word = 0;
  for (size_t at = 0; at < bytes.size(); ++at, word >>= 8) {
    if (at % 4 == 0) word = rng.next_u32();
    bytes[at] = (unsigned char)(row.at("dtype") == "bool" ? word & 1 : word);
  }
  return bytes;
}

static int write(const char* tensors, const std::string& folder, bool crash) {
  std::unique_ptr<Recorder> recorder;
  std::string current;
  for (const Row& row : table(tensors)) {
    if ((row.at("trace") == "crash") != crash) continue;
    if (row.at("trace") != current) {
      recorder = nullptr;
      recorder = std::make_unique<Recorder>(folder + "/" + (current = row.at("trace")));
    }
    const auto shape = shape_of(row.at("shape"));
    const auto bytes = values_of(row, size_t(detail::elements(shape)), detail::find_dtype(row.at("dtype"))->size);
    const std::string name = decoded(row.at("name")), slot = decoded(row.at("slot"));
    const std::string op = row.at("op") == "-" ? "" : decoded(row.at("op")), dims = row.at("dims") == "-" ? "" : decoded(row.at("dims"));
    Fields fields;
    fields.role = row.at("role"), fields.slot = slot, fields.op = op, fields.dims = dims;
    fields.step = std::stoll(row.at("step")), fields.rank = std::stoll(row.at("rank")), fields.world = std::stoll(row.at("world"));
    if (!recorder->tap_bytes(name, row.at("dtype"), bytes.data(), bytes.size(), shape, fields)) return std::cerr << recorder->error() << "\n", 1;
  }
  if (crash) std::abort();
  return 0;
}

static int read(const std::string& folder) {
  const Golden golden(folder);
  std::cout << (!golden.is_trace ? "plain" : golden.complete ? "complete" : "incomplete") << "\n";
  for (const Entry& entry : golden.entries) {
    std::string error;
    const auto tensor = Golden::load(entry, error);
    if (!tensor) return std::cerr << error << "\n", 1;
    std::string sizes;
    for (const int64_t size : tensor->shape) sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
    uint64_t hash = 0xcbf29ce484222325u;
    for (const unsigned char byte : tensor->bytes) hash = (hash ^ byte) * 0x100000001b3u;
    char digits[20];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
    std::cout << encoded(entry.name) << '\t' << entry.call << '\t' << entry.step << '\t' << entry.role << '\t' << encoded(entry.slot) << '\t'
              << entry.rank << '\t' << tensor->dtype << '\t' << (sizes.empty() ? "scalar" : sizes) << '\t' << digits << '\n';
  }
  return 0;
}

static std::string digits_of(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, 8);
  char digits[20];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(bits));
  return digits;
}

static int check(const char* cases, const std::string& folder) {
  for (const Row& row : table(cases)) {
    Validator validator(folder + "/" + row.at("trace"));
    std::string name = decoded(row.at("name")), error;
    auto tensor = validator.golden.load(name, error);
    if (!tensor) return std::cerr << error << "\n", 1;
    const std::string& change = row.at("change");
    if (change.rfind("shape:", 0) == 0) tensor->shape = shape_of(change.substr(6));
    if (change.rfind("set:", 0) == 0) {
      for (const auto& part : split(change.substr(4), ';')) {
        const auto bytes = from_hex(part.substr(part.find(':') + 1));
        std::copy(bytes.begin(), bytes.end(), tensor->bytes.begin() + std::stol(part) * long(bytes.size()));
      }
    }
    if (change == "absent") name += "-absent";
    const Result& result = validator.check_bytes(name, tensor->dtype, tensor->bytes.data(), tensor->bytes.size(), tensor->shape);
    if (result.status == Status::error || result.status == Status::shape)
      std::cout << (result.status == Status::error ? "error" : "shape") << "\t-\t-\t-\n";
    else
      std::cout << (result.status == Status::pass ? "pass" : "value") << '\t' << result.beyond << '\t' << result.nan + result.inf << '\t' << digits_of(result.max) << '\n';
  }
  return 0;
}

template <class Draw> static void section(const std::string& heading, Draw draw) {
  Rng rng(0x0123456789abcdef, 0xfedcba9876543210);
  std::cout << "# " << heading << '\n';
  for (uint64_t number = 0; number < 1000; ++number) std::cout << draw(rng, number) << '\n';
}

static int draws() {
  const auto word = [](uint32_t value) {
    char digits[12];
    std::snprintf(digits, sizeof digits, "%08x", value);
    return std::string(digits);
  };
  section("next_u32", [&](Rng& rng, uint64_t) { return word(rng.next_u32()); });
  section("jumps", [&](Rng& rng, uint64_t number) { return rng.set_position(number * 4294967311u), word(rng.next_u32()); });
  section("uniform", [](Rng& rng, uint64_t) { return digits_of(rng.uniform()); });
  section("uniform_f32", [&](Rng& rng, uint64_t) {
    const float value = rng.uniform_f32();
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return word(bits);
  });
  section("normal", [](Rng& rng, uint64_t) { return digits_of(rng.normal()); });
  section("gumbel", [](Rng& rng, uint64_t) { return digits_of(rng.gumbel()); });
  section("integers 0 10", [](Rng& rng, uint64_t) { return rng.integers(0, 10); });
  section("integers -1000 3221224472", [](Rng& rng, uint64_t) { return rng.integers(-1000, 3221224472); });
  section("integers 0 4294967296", [](Rng& rng, uint64_t) { return rng.integers(0, 4294967296); });
  std::cout << "# permutation 1000\n";
  for (const uint32_t value : Rng(0x0123456789abcdef, 0xfedcba9876543210).permutation(1000)) std::cout << value << '\n';
  return 0;
}

int main(int count, char** arguments) {
  const std::string command = count > 1 ? arguments[1] : "";
  if (command == "draws") return draws();
  if ((command == "write" || command == "crash") && count == 4) return write(arguments[2], arguments[3], command == "crash");
  if (command == "check" && count == 4) return check(arguments[2], arguments[3]);
  int failed = command != "read";
  for (int argument = 2; argument < count && !failed; ++argument) failed = read(arguments[argument]);
  return failed;
}
