#include "leads.h"

#include <stdio.h>

static uint64_t state = 0x9E3779B97F4A7C15U;

/* xorshift64*: any generator will do as long as it is the same everywhere. */
static unsigned below(unsigned bound)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (unsigned)((state * 0x2545F4914F6CDD1DU) >> 33) % bound;
}

#define PICK(table) (table)[below(sizeof(table) / sizeof((table)[0]))]

static const char *const given[] = {
    "João",     "Maria",     "José",   "Ana",     "Antônio", "Francisca", "Luís",
    "Patrícia", "Paulo",     "Mônica", "Carlos",  "Letícia", "Marcos",    "Júlia",
    "Rafael",   "Conceição", "Bruno",  "Natália", "Tiago",   "Beatriz",
};

static const char *const family[] = {
    "da Silva",  "dos Santos", "Oliveira", "Souza",   "Gonçalves", "Araújo",   "Ribeiro",
    "Magalhães", "Carvalho",   "Almeida",  "Brandão", "Monteiro",  "Assunção", "Pereira",
};

static const char *const city[] = {
    "São Paulo",     "Rio de Janeiro", "Belo Horizonte", "Brasília",       "Goiânia",
    "Florianópolis", "Porto Alegre",   "Curitiba",       "Ribeirão Preto", "Maceió",
};

static const char *const source[] = {"facebook_ads", "google", "site", "Indicação", "feira-2026"};

static const char *const note[] = {
    "Cliente procura apartamento com 3 dormitórios, sacada gourmet e duas vagas na garagem.",
    "Pediu retorno depois das 18h.\\nPrefere contato por WhatsApp; não liga no horário comercial.",
    "Indicou a \\\"torre B\\\" e perguntou por financiamento em até 360 meses pelo banco.",
    "Sem interesse no momento",
    "Visitou o estande com a fam\\u00edlia \\ud83d\\ude42 e levou o material impresso do "
    "lançamento.",
    "",
};

static void write_record(FILE *f, unsigned long id)
{
    fprintf(f, "{\"id\": %lu, \"name\": \"%s %s\", \"phoneNumber\": \"+55 (%02u) 9%04u-%04u\", ",
            id, PICK(given), PICK(family), 11 + below(88), below(10000), below(10000));
    fprintf(f, "\"email\": \"cliente%u@exemplo.com.br\", \"origin\": \"%s\", \"city\": \"%s\", ",
            below(10000000), PICK(source), PICK(city));
    fprintf(f, "\"createdAt\": \"2026-%02u-%02uT%02u:%02u:%02uZ\", \"budget\": %u.%02u, ",
            1 + below(12), 1 + below(28), below(24), below(60), below(60), 90000 + below(2000000),
            below(100));
    fprintf(f, "\"optIn\": %s, \"agent\": ", below(3) ? "true" : "false");
    if (below(4) == 0)
        fputs("null, ", f);
    else
        fprintf(f, "\"corretor-%03u\", ", below(400));
    fprintf(f, "\"notes\": \"%s\", ", PICK(note));
    fprintf(f,
            "\"property\": {\"code\": \"AP-%05u\", \"area\": %u.%u, \"rooms\": [%u, %u, %u], "
            "\"address\": {\"street\": \"Rua %s\", \"number\": %u}}}",
            below(100000), 30 + below(200), below(10), 1 + below(4), 1 + below(3), below(3),
            PICK(family), 1 + below(4000));
}

int bench_leads_write(const char *path, int64_t bytes)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return -1;
    setvbuf(f, NULL, _IOFBF, 1 << 20);
    fputs("[\n", f);
    for (unsigned long id = 1; ftello(f) < bytes; id++) {
        if (id > 1)
            fputs(",\n", f);
        write_record(f, id);
    }
    fputs("\n]\n", f);
    return fclose(f);
}
