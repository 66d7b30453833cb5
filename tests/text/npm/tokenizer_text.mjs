// Text in many scripts, written for the tests: what the test vocabularies are trained on and the corpus is cut from.

export const sentences = [
  "The quick brown fox jumps over the lazy dog, and nobody knows why.",
  "She bought three boxes with twelve pencils each; how many pencils does she have now?",
  "It's what they've said: we'll see, I'm sure, you'd know, they're here, don't ask.",
  "Tom has 15 apples. He gives 4 to Anna and 3 to Ben. So 15 - 4 - 3 = 8 apples are left.",
  "First we multiply 12 by 7, which gives 84. Then we add 16: 84 + 16 = 100. The answer is 100.",
  "Reproducible numbers are a function of the model and the tokens, and of nothing else.",
  "for (int i = 0; i < count; ++i) { sum += values[i] * weights[i]; }",
  "def mean(values):\n    total = 0.0\n    for value in values:\n        total += value\n    return total / len(values)\n",
  "if (!file.is_open()) {\n\t\tthrow std::runtime_error(\"cannot open \" + path);\n\t}\n",
  "SELECT name, COUNT(*) FROM orders WHERE price >= 9.99 GROUP BY name ORDER BY 2 DESC;",
  "{\"id\": 42, \"name\": \"example\", \"tags\": [\"a\", \"b\"], \"nested\": {\"ok\": true, \"value\": null}}",
  "<div class=\"row\"><a href=\"https://example.org/?q=1&amp;r=2\">link</a></div>",
  "Der Fluß fließt schnell über die großen Steine, während Öl und Äpfel übrig bleiben.",
  "Le garçon a mangé une crêpe à la fraise près de l'église où il naquit, dit-elle.",
  "El niño pequeño corrió mañana hacia la montaña; ¿dónde está el señor? ¡Aquí!",
  "O coração não é tão grande, mas a emoção é; à noite há silêncio.",
  "Zażółć gęślą jaźń, a potem idź do domu i śpij spokojnie.",
  "Příliš žluťoučký kůň úpěl ďábelské ódy nad řekou.",
  "Flygande bäckasiner söka hwila på mjuka tuvor, sade åtta män.",
  "Pijamalı hasta yağız şoföre çabucak güvendi; İstanbul'da ılık bir gün.",
  "Съешь же ещё этих мягких французских булок, да выпей чаю. Сколько будет семь раз восемь?",
  "Жебракують філософи при ґанку церкви в Гадячі, ще й шатро їхнє п'яне знаємо.",
  "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία, είπε ο δάσκαλος στους μαθητές.",
  "אבא קנה שלושה ספרים ונתן אחד מהם לחבר טוב.",
  "ذهب الولد إلى المدرسة صباحًا ومعه ثلاثة كتب وقلم واحد، ثم عاد مساءً.",
  "یک مرد پنج سیب داشت و دو تا را به دوستش داد؛ چند سیب مانده است؟",
  "राम के पास बारह आम हैं और वह चार आम अपने मित्र को देता है।",
  "একজন কৃষকের দশটি গরু আছে এবং সে আরও দুটি কিনেছে।",
  "தமிழ் மொழி மிகவும் பழமையான மொழிகளில் ஒன்றாகும்.",
  "ప్రతి రోజు ఉదయం అతను నదికి వెళ్తాడు.",
  "เขามีแอปเปิ้ลสิบลูกและให้เพื่อนสามลูก เหลือกี่ลูก",
  "ຂ້ອຍມັກກິນເຂົ້າໜຽວທຸກມື້.",
  "ကျွန်တော် မနက်တိုင်း ကော်ဖီ သောက်တယ်။",
  "ქართული ენა ძალიან ლამაზია და ძველი.",
  "Բոլոր մարդիկ ծնվում են ազատ ու հավասար։",
  "ሁሉም ሰዎች ነጻ ሆነው ተወልደዋል።",
  "他有十二个苹果，给了朋友三个，又买了五个，现在一共有多少个苹果？",
  "每一行的結果只取決於它自己的輸入，與批次大小無關。",
  "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。",
  "リンゴが五つとミカンが三つあります。ぜんぶでいくつですか？",
  "사과가 열두 개 있고 친구에게 세 개를 주면 몇 개가 남을까요?",
  "Tiếng Việt có nhiều dấu: ăn quả nhớ kẻ trồng cây, uống nước nhớ nguồn.",
  "Habari za asubuhi, rafiki yangu? Leo tutahesabu hadi mia moja.",
  "I ♥ maths 😀👍🏽 and 👩‍👩‍👧‍👦 families, 🇫🇷 flags, ✈️ planes — “quoted” … ‘really’?",
  "∑ x² ≤ ∞, ½ + ¼ = ¾, a ≠ b ⇒ f(a) → g(b), π ≈ 3.14159, 25 °C, €9.99, £5, ¥700",
  "Line one\r\nLine two\r\n\r\n  indented\n\n\n\tTabbed\u00a0space\u3000wide",
];

const syllables = {
  latin: ["ba", "con", "tion", "re", "ing", "ment", "pre", "ate", "ly", "un", "der", "sta", "mul", "ti", "ple", "num", "ber"],
  cyrillic: ["про", "сти", "ние", "пре", "раз", "ка", "ло", "ве", "ми", "ру"],
  greek: ["λο", "για", "μα", "τος", "νι", "κη", "πρω", "τα"],
  devanagari: ["का", "रि", "नी", "मे", "सु", "तो", "प्र"],
  arabic: ["ال", "كت", "اب", "مد", "رس", "ية", "ون"],
  hangul: ["가", "나다", "마", "바사", "아", "자차", "하"],
  han: ["人", "大", "中国", "数学", "学", "生", "问题", "天", "地"],
};

// The same numbers for the same seed on every machine: mulberry32.
export function random_numbers(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

export const pick = (random, list) => list[random(list.length)];

// Words made of a script's syllables, so that a vocabulary has many words that share parts.
export function made_up_words(random, count) {
  const scripts = Object.values(syllables);
  return Array.from({ length: count }, () => {
    const script = random(2) === 0 ? syllables.latin : pick(random, scripts);
    const word = Array.from({ length: 1 + random(4) }, () => pick(random, script)).join("");
    return random(8) === 0 ? word[0].toUpperCase() + word.slice(1) : word;
  });
}

// Short strings in which every kind of character meets every other: where a text is cut shows in these.
const meeting = [
  "a", "b", "S", "s", "1", "2", " ", "  ", "\n", "\r", "\r\n", "\t", "\u0085", "\u00a0", "\u180e", "\u200b", "\u3000",
  ".", "!", "'", "'s", "'S", "é", "e\u0301", "数", "😀",
];
export const meeting_characters = (random) => Array.from({ length: 2 + random(4) }, () => pick(random, meeting)).join("");
